"""Depthwise convolution, channels first, float32: vectors along the rows.

Each thread copies one plane at a time with its padding into scratch that stays in its cache, columns dealt out by
the phase of the stride, and then every tap of a vector of outputs is one vector load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.jit import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.conv_depthwise_chl import reject_depthwise
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, scratch, source, target_of
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_DEPTHWISE_F32_CHF"]

_CHF = Format(DType.F32, Layout.CHF)
_ROWS = (4, 8, 2, 1)


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_depthwise(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    inputs: list[Format | None] = [_CHF] + [None] * (len(problem.inputs) - 1)
    if cast(Conv, problem.op).epilogue.residual:
        inputs[-1] = _CHF
    return (Signature(tuple(inputs), (_CHF,)),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    height = problem.outputs[0].shape[2]
    return tuple({"rt": rt} for rt in _ROWS if rt <= height and rt + 2 <= target.registers)[:3]


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    weights = values[1]
    assert weights is not None
    bias = values[2] if cast(Conv, problem.op).bias else None
    return weights, bias if bias is not None else np.zeros(weights.shape[0], np.float32)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    images, channels, height, width = problem.input(0).shape
    kernel_h, kernel_w = problem.input(1).shape[2:]
    out_height, out_width = problem.outputs[0].shape[2:]
    rt, lanes = schedule["rt"], target.f32_lanes
    padded = (math.ceil(out_height / rt) * rt - 1) * op.strides[0] + (kernel_h - 1) * op.dilations[0] + 1
    reach = (kernel_w - 1) * op.dilations[1] // op.strides[1]
    pitch = math.ceil((math.ceil(out_width / lanes) * lanes + reach) / lanes) * lanes
    residual = source(len(problem.inputs) - 1) if op.epilogue.residual else 0
    kernel = KernelSpec.of(
        "depthwise_chf", kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.strides[0], stride_w=op.strides[1],
        dilation_h=op.dilations[0], dilation_w=op.dilations[1], rt=rt, epilogue=str(op.epilogue),
    )  # fmt: skip
    words = (source(0), target_of(0), packed(0), packed(1), residual, images * channels, channels, height, width,
             out_height, out_width, op.pads[0], op.pads[1], scratch(), problem.threads, padded, pitch)
    return Built(launches=(Launch(kernel, words),), scratch=problem.threads * padded * op.strides[1] * pitch * 4)


CONV_DEPTHWISE_F32_CHF = Routine(
    name="conv.depthwise.f32.chf",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
