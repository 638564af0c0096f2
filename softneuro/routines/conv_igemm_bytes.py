"""Convolution of any rank, kernel, stride, dilation and groups as an indirect GEMM, channels last, of bytes.

As `conv_igemm`, with exact sums of 8-bit products. Padding is a row of the input's zero point, so that the correction for it
is the same for every pixel and the sums start from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.byte_panels import STEP, rest_of
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.byte_product import byte_signatures, byte_tiles, last_step, needs_bytes, packed_weights, reject_deep
from softneuro.routines.conv_igemm import offset_table
from softneuro.routines.linear import reject_convolution, reject_large_image, residual_word, weights_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, table, target_of
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_IGEMM_QINT8_CHL"]


def _reject(problem: Problem, target: Target) -> str | None:
    return (reject_convolution(problem) or reject_large_image(problem) or reject_deep(math.prod(problem.input(1).shape[1:]))
            or needs_bytes(problem))


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return byte_signatures(problem, Format(DType.QINT8, Layout.CHL), Layout.CHL)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    filters = problem.input(1).shape[0] // cast(Conv, problem.op).groups
    return byte_tiles(math.prod(problem.outputs[0].shape[2:]), filters, target)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    weights, x = weights_of(values), problem.input_quantisation(0)
    assert x is not None
    filters, channels, *kernel = weights.shape
    groups = cast(Conv, problem.op).groups
    taps = weights.reshape(groups, filters // groups, channels, math.prod(kernel)).swapaxes(2, 3)
    return *packed_weights(problem, taps, values, schedule["nv"], target), np.full(channels, x.zero, np.uint8)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    x, w, y = problem.input(0), problem.input(1), problem.outputs[0]
    mr, nv, channels = schedule["mr"], schedule["nv"], w.shape[1]
    filters = w.shape[0] // op.groups
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), packed(3), residual_word(problem), packed(2),
        math.prod(y.shape[2:]), math.prod(w.shape[2:]), math.ceil(channels / STEP), last_step(channels), channels, filters,
        math.ceil(filters / (nv * target.f32_lanes)), op.groups, x.shape[0],
        math.prod(x.shape[1:]), math.prod(y.shape[1:]), y.shape[1],
    )  # fmt: skip
    kernel = KernelSpec.of("igemm_bytes", mr=mr, nv=nv, epilogue=str(op.epilogue), kept=signature.outputs[0].dtype.value,
                           rest=rest_of(channels))
    offsets = offset_table(x.shape[1:], w.shape[2:], y.shape[2:], op, mr, 1)
    return Built(launches=(Launch(kernel, words),), tables=(offsets,))


CONV_IGEMM_QINT8_CHL = Routine(
    name="conv.igemm.qint8.chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
    computes=DType.QINT8,
)
