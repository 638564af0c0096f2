"""Convolution of any rank, kernel, stride, dilation and groups as an indirect GEMM, channels last, float32.

After Dukhan, "The Indirect Convolution Algorithm" (2019): no patch matrix is made, each tap of each output pixel
finds its input row through a table. The table holds byte offsets into one image (negative: padding), so it is
shared by all contexts and images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.jit import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.routine import (
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    packed,
    source,
    table,
    target_of,
)
from softneuro.types import Array, DType, Format, Layout, Shape

__all__ = ["CONV_IGEMM_F32_CHL", "offset_table", "panels_of"]

_CHL = Format(DType.F32, Layout.CHL)


def _reject(problem: Problem, target: Target) -> str | None:
    op = cast(Conv, problem.op)
    x = problem.input(0)
    if x.dtype is not DType.F32:
        return f"found {x.dtype} input, needed f32"
    if not problem.constant[1] or (op.bias and not problem.constant[2]):
        return "found weights that are computed at run time, needed constants"
    if op.epilogue.residual and problem.inputs[-1] != problem.outputs[0]:
        return f"found a residual of {problem.inputs[-1]}, needed {problem.outputs[0]}"
    if 4 * math.prod(x.shape[1:]) >= 2**31:
        return f"found an image of {4 * math.prod(x.shape[1:])} bytes, needed less than 2^31"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    op = cast(Conv, problem.op)
    inputs: list[Format | None] = [_CHL] + [None] * (len(problem.inputs) - 1)
    if op.epilogue.residual:
        inputs[-1] = _CHL
    return (Signature(tuple(inputs), (_CHL,)),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles that fit the registers, those that pad the filters least first, then the widest for their number of loads.

    Row counts are balanced so that the last tile is nearly full.
    """
    pixels = math.prod(problem.outputs[0].shape[2:])
    filters = problem.input(1).shape[0] // cast(Conv, problem.op).groups
    vectors = math.ceil(filters / target.f32_lanes)
    found: dict[tuple[int, int], Schedule] = {}
    for nv in sorted((2, 3, 4, 1), key=lambda nv: math.ceil(vectors / nv) * nv):
        most = (target.registers - nv - 1) // nv
        if nv > vectors or most < 1:
            continue
        mr = math.ceil(pixels / math.ceil(pixels / most))
        found.setdefault((mr, nv), {"mr": mr, "nv": nv})
    return tuple(found.values())


def panels_of(weights: Array, groups: int, width: int) -> Array:
    """Weights (k, c, *kernel) as [group][panel][tap][c][width] float32, the last panel filled with zeros."""
    filters = weights.shape[0] // groups
    channels, taps = weights.shape[1], math.prod(weights.shape[2:])
    panels = math.ceil(filters / width)
    result = aligned_empty((groups, panels, taps, channels, width))
    result[:, -1] = 0.0
    source_view = weights.reshape(groups, filters, channels, taps)
    for panel in range(panels):
        part = source_view[:, panel * width : (panel + 1) * width]
        result[:, panel, :, :, : part.shape[1]] = part.transpose(0, 3, 2, 1)
    return result


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    op = cast(Conv, problem.op)
    width = schedule["nv"] * target.f32_lanes
    weights = values[1]
    assert weights is not None
    bias = values[2] if op.bias else np.zeros(weights.shape[0], np.float32)
    assert bias is not None
    bias_panels = panels_of(bias.reshape(-1, 1), op.groups, width)
    zero = np.zeros(weights.shape[1], np.float32)
    return panels_of(weights, op.groups, width), bias_panels, zero


def offset_table(shape: Shape, kernel: Shape, output: Shape, op: Conv, mr: int) -> Array:
    """int32 [tile][tap][mr]: byte offset in an image of the input pixel under each tap, -1 in the padding.

    shape: (c, *spatial) of the input; output: spatial output sizes. Rows past the last pixel repeat it.
    """
    channels, spatial = shape[0], shape[1:]
    axes = len(spatial)
    offsets = np.zeros((1, 1), np.int64)
    inside = np.ones((1, 1), np.bool_)
    for axis in range(axes):
        position = (np.arange(output[axis])[:, None] * op.strides[axis] - op.pads[axis]
                    + np.arange(kernel[axis])[None, :] * op.dilations[axis])
        valid = (position >= 0) & (position < spatial[axis])
        rows, columns = offsets.shape
        offsets = (offsets[:, None, :, None] * spatial[axis] + position[None, :, None, :]).reshape(
            rows * output[axis], columns * kernel[axis])
        inside = (inside[:, None, :, None] & valid[None, :, None, :]).reshape(offsets.shape)
    bytes_ = np.where(inside, offsets * channels * 4, -1).astype(np.int32)
    pixels = bytes_.shape[0]
    tiles = math.ceil(pixels / mr)
    padded = np.concatenate([bytes_, np.repeat(bytes_[-1:], tiles * mr - pixels, axis=0)])
    return np.ascontiguousarray(padded.reshape(tiles, mr, -1).transpose(0, 2, 1))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    x, w, y = problem.input(0), problem.input(1), problem.outputs[0]
    mr, nv = schedule["mr"], schedule["nv"]
    filters = w.shape[0] // op.groups
    pixels = math.prod(y.shape[2:])
    residual = source(len(problem.inputs) - 1) if op.epilogue.residual else 0
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), packed(2), residual,
        pixels, math.prod(w.shape[2:]), w.shape[1], filters,
        math.ceil(filters / (nv * target.f32_lanes)), op.groups, x.shape[0],
        4 * math.prod(x.shape[1:]), 4 * math.prod(y.shape[1:]), 4 * y.shape[1],
    )  # fmt: skip
    kernel = KernelSpec.of("igemm", mr=mr, nv=nv, epilogue=str(op.epilogue))
    return Built(launches=(Launch(kernel, words),), tables=(offset_table(x.shape[1:], w.shape[2:], y.shape[2:], op, mr),))


CONV_IGEMM_F32_CHL = Routine(
    name="conv.igemm.f32.chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
