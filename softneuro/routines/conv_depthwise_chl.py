"""Depthwise convolution, channels last, float32 arithmetic on what is kept as float32 or 16 bits: tiles in registers.

A tile has rows and columns of output pixels. Each input pixel of it is loaded once for each vector of channels and added
into every output that its window covers; padding is skipped, not multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL
from softneuro.routines.linear import bias_of, packed_signature, reject_convolution, residual_word, weights_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of
from softneuro.routines.sizes import round_up
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_DEPTHWISE_BF16_CHL", "CONV_DEPTHWISE_F16_CHL", "CONV_DEPTHWISE_F32_CHL", "reject_depthwise"]

_LARGEST_KERNEL = 49
_TILES = ((4, 4), (2, 7), (2, 8), (4, 2), (1, 8), (2, 4), (1, 4), (2, 2), (1, 2), (1, 1))
_UNITS_PER_THREAD = 4


def reject_depthwise(problem: Problem, target: Target) -> str | None:
    """What every float32 depthwise routine needs: two axes, a filter a channel, a small kernel."""
    reason = reject_convolution(problem)
    if reason is not None:
        return reason
    op, x, w = cast(Conv, problem.op), problem.input(0), problem.input(1)
    if len(op.strides) != 2:
        return f"found {len(op.strides)} spatial axes, needed 2"
    if op.groups != x.shape[1] or w.shape[0] != x.shape[1]:
        return f"found {op.groups} groups, {w.shape[0]} filters and {x.shape[1]} channels, needed as many of each"
    if math.prod(w.shape[2:]) > _LARGEST_KERNEL:
        return f"found a kernel of {math.prod(w.shape[2:])} taps, needed at most {_LARGEST_KERNEL}"
    return None


def _signatures(problem: Problem, dtype: DType) -> tuple[Signature, ...]:
    """Outputs of the input's data type or of float32."""
    own = Format(dtype, Layout.CHL)
    return tuple(packed_signature(problem, own, y) for y in dict.fromkeys((own, F32_CHL)))


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles no larger than the output whose sums and one row of weights fit the registers."""
    height, width = problem.outputs[0].shape[2:]
    kernel_width = problem.input(1).shape[3]
    fitting = [(rt, ot) for rt, ot in _TILES
               if rt <= height and ot <= max(width, 1) and rt * ot + kernel_width + 1 <= target.registers]
    return tuple({"rt": rt, "ot": ot} for rt, ot in (fitting or [(1, 1)])[:4])


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """Weights and bias as [block][taps + 1][lanes], the last block filled with zeros."""
    weights = weights_of(values)
    channels, taps = weights.shape[0], math.prod(weights.shape[2:])
    rows = np.zeros((taps + 1, round_up(channels, target.f32_lanes)), np.float32)
    rows[:taps, :channels] = weights.reshape(channels, taps).T
    rows[taps, :channels] = bias_of(problem, values, channels)
    return (np.ascontiguousarray(rows.reshape(taps + 1, -1, target.f32_lanes).transpose(1, 0, 2)),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    images, channels, height, width = problem.input(0).shape
    out_height, out_width = problem.outputs[0].shape[2:]
    rt, ot = schedule["rt"], schedule["ot"]
    blocks = math.ceil(channels / target.f32_lanes)
    tiles = images * math.ceil(out_height / rt) * math.ceil(out_width / ot)
    wanted = problem.threads * _UNITS_PER_THREAD if problem.threads > 1 else 1
    chunks = min(blocks, math.ceil(wanted / max(tiles, 1)))
    kernel_h, kernel_w = problem.input(1).shape[2:]
    x = signature.inputs[0]
    assert x is not None
    kernel = KernelSpec.of(
        "depthwise_chl", kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.strides[0], stride_w=op.strides[1],
        dilation_h=op.dilations[0], dilation_w=op.dilations[1], rt=rt, ot=ot,
        masked=channels % target.f32_lanes != 0, epilogue=str(op.epilogue), found=x.dtype.value,
        wanted=signature.outputs[0].dtype.value,
    )  # fmt: skip
    words = (source(0), target_of(0), packed(0), residual_word(problem), images, channels, height, width, out_height, out_width,
             op.pads[0], op.pads[1], chunks)
    return Built(launches=(Launch(kernel, words),))


def _routine(dtype: DType) -> Routine:
    return Routine(
        name=f"conv.depthwise.{dtype}.chl", op=Conv, reject=reject_depthwise,
        signatures=lambda problem: _signatures(problem, dtype), schedules=_schedules, pack=_pack, build=_build, packs=(1, 2))


CONV_DEPTHWISE_F32_CHL = _routine(DType.F32)
CONV_DEPTHWISE_BF16_CHL = _routine(DType.BF16)
CONV_DEPTHWISE_F16_CHL = _routine(DType.F16)
