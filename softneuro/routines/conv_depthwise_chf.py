"""Depthwise convolution, channels first, float32: vectors along the rows.

Each thread copies one plane at a time with its padding into scratch that stays in its cache, columns dealt out by
the phase of the stride, and then every tap of a vector of outputs is one vector load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.conv_depthwise_chl import reject_depthwise
from softneuro.routines.formats import F32_CHF
from softneuro.routines.linear import bias_of, packed_signature, residual_word, weights_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, scratch, source, target_of
from softneuro.routines.sizes import round_up
from softneuro.types import Array

__all__ = ["CONV_DEPTHWISE_F32_CHF"]

_ROWS = (4, 8, 2, 1)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHF, F32_CHF),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    height = problem.outputs[0].shape[2]
    return tuple({"rt": rt} for rt in _ROWS if rt <= height and rt + 2 <= target.registers)[:3]


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    weights = weights_of(values)
    return weights, bias_of(problem, values, weights.shape[0])


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    images, channels, height, width = problem.input(0).shape
    kernel_h, kernel_w = problem.input(1).shape[2:]
    out_height, out_width = problem.outputs[0].shape[2:]
    rt, lanes = schedule["rt"], target.f32_lanes
    padded = (round_up(out_height, rt) - 1) * op.strides[0] + (kernel_h - 1) * op.dilations[0] + 1
    reach = (kernel_w - 1) * op.dilations[1] // op.strides[1]
    pitch = round_up(round_up(out_width, lanes) + reach, lanes)
    kernel = KernelSpec.of(
        "depthwise_chf", kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.strides[0], stride_w=op.strides[1],
        dilation_h=op.dilations[0], dilation_w=op.dilations[1], rt=rt, epilogue=str(op.epilogue),
    )  # fmt: skip
    words = (source(0), target_of(0), packed(0), packed(1), residual_word(problem), images * channels, channels, height, width,
             out_height, out_width, op.pads[0], op.pads[1], scratch(), problem.threads, padded, pitch)
    return Built(launches=(Launch(kernel, words),), scratch=problem.threads * padded * op.strides[1] * pitch * 4)


CONV_DEPTHWISE_F32_CHF = Routine(
    name="conv.depthwise.f32.chf",
    op=Conv,
    reject=reject_depthwise,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
