"""Convolution with one or two spatial axes, channels first, float32: vectors of output pixels.

Without padding and strides the input is read in place: a 1 x 1 kernel is then one matrix product over all pixels.
Otherwise the input is first copied with its padding, columns dealt out by the phase of the stride, so that every
tap of a vector of outputs is one vector load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHF
from softneuro.routines.linear import bias_of, packed_signature, reject_convolution, residual_word, weights_of
from softneuro.routines.routine import (
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    packed,
    scratch,
    source,
    table,
    target_of,
)
from softneuro.routines.sizes import balanced, round_up
from softneuro.types import Array

__all__ = ["CONV_DIRECT_F32_CHF", "filter_tiles_of", "pixel_tiles"]

_VECTORS = (3, 4, 2, 7, 5, 1)
_TILES = 4


def _reject(problem: Problem, target: Target) -> str | None:
    reason = reject_convolution(problem)
    if reason is not None:
        return reason
    axes = problem.input(0).rank - 2
    if axes > 2:
        return f"found {axes} spatial axes, needed 1 or 2"
    geometry = _geometry(problem)
    nbytes = (_padded(geometry, max(_VECTORS) * target.f32_lanes) or (0, 0, 4 * geometry.height * geometry.width))[2]
    if nbytes * geometry.channels >= 2**31:
        return f"found {nbytes * geometry.channels} bytes of padded input a group, needed less than 2^31"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHF, F32_CHF),)


def pixel_tiles(target: Target, filters: int, columns: int) -> tuple[Schedule, ...]:
    """Tiles that fit the registers, least idle lanes first; the first also with its loops exchanged.

    filters: of a group; columns: output pixels that lie side by side.
    """
    vectors = math.ceil(columns / target.f32_lanes)
    found: list[dict[str, int]] = []
    for nv in sorted(_VECTORS, key=lambda nv: round_up(vectors, nv)):
        most = target.most_rows(nv)
        if most >= 1 and len(found) < _TILES:
            found.append({"kt": balanced(filters, most), "nv": nv, "weights_first": 0})
    return (*found, {**found[0], "weights_first": 1})


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    geometry = _geometry(problem)
    columns = geometry.out_width * (geometry.out_height if _in_place(geometry) else 1)
    return pixel_tiles(target, geometry.filters, columns)


@dataclass(frozen=True)
class _Geometry:
    """A convolution of one or two axes seen as two-dimensional; channels and filters count one group."""

    images: int
    groups: int
    channels: int
    filters: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]
    out_height: int
    out_width: int


def _geometry(problem: Problem) -> _Geometry:
    op = cast(Conv, problem.op)
    x, w, y = problem.input(0).shape, problem.input(1).shape, problem.outputs[0].shape
    one = (1,) * (2 - len(op.strides))
    axes = len(op.strides)
    top, left = (0,) * len(one) + op.pads[:axes]
    bottom, right = (0,) * len(one) + op.pads[axes:]
    height, width = one + x[2:]
    out_height, out_width = one + y[2:]
    kernel_h, kernel_w = one + w[2:]
    stride_h, stride_w = one + op.strides
    dilation_h, dilation_w = one + op.dilations
    return _Geometry(x[0], op.groups, w[1], w[0] // op.groups, height, width, (kernel_h, kernel_w),
                     (stride_h, stride_w), (dilation_h, dilation_w), (top, left, bottom, right), out_height, out_width)


def _in_place(g: _Geometry) -> bool:
    """Whether the outputs are all input pixels in their order, so that rows need not be told apart."""
    return g.kernel == (1, 1) and g.stride == (1, 1) and not any(g.pads)


def _padded(g: _Geometry, span: int) -> tuple[int, int, int] | None:
    """Rows, pitch and plane bytes of the padded copy for tiles of ``span`` pixels; None when x is read in place."""
    if _in_place(g):
        return None
    rows = (g.out_height - 1) * g.stride[0] + (g.kernel[0] - 1) * g.dilation[0] + 1
    reach = (g.kernel[1] - 1) * g.dilation[1] // g.stride[1]
    pitch = round_up(g.out_width, span) + reach
    return rows, pitch, 4 * rows * pitch * g.stride[1]


def filter_tiles_of(values: Array, groups: int, kt: int) -> Array:
    """(groups * filters, steps) as [group][filter tile][step][kt], the last tile filled with zeros."""
    filters, steps = values.shape[0] // groups, values.shape[1]
    tiles = math.ceil(filters / kt)
    result = np.zeros((groups, tiles * kt, steps), np.float32)
    result[:, :filters] = values.reshape(groups, filters, steps)
    return np.ascontiguousarray(result.reshape(groups, tiles, kt, steps).transpose(0, 1, 3, 2))


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    groups, kt = cast(Conv, problem.op).groups, schedule["kt"]
    weights = weights_of(values)
    filters = weights.shape[0]
    bias = bias_of(problem, values, filters)
    return (filter_tiles_of(weights.reshape(filters, -1), groups, kt), filter_tiles_of(bias.reshape(-1, 1), groups, kt))


def _offsets(g: _Geometry, pitch: int, plane: int) -> Array:
    """int32 [channel, kernel row, kernel column]: bytes from an output's first input element to each of its inputs."""
    columns = np.arange(g.kernel[1]) * g.dilation[1]
    along = (columns % g.stride[1] * pitch + columns // g.stride[1]) * 4
    down = np.arange(g.kernel[0]) * (g.dilation[0] * g.stride[1] * pitch * 4)
    offsets = (np.arange(g.channels) * plane)[:, None, None] + down[:, None] + along
    return offsets.astype(np.int32).reshape(-1)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    g = _geometry(problem)
    kt, nv = schedule["kt"], schedule["nv"]
    padded = _padded(g, nv * target.f32_lanes)
    launches: list[Launch] = []
    if padded is None:
        x, pitch, plane, nbytes = source(0), g.width, 4 * g.height * g.width, 0
        rows, columns, row_bytes = 1, g.out_height * g.out_width, 0
    else:
        height, pitch, plane = padded
        x, nbytes = scratch(), g.images * g.groups * g.channels * plane
        rows, columns, row_bytes = g.out_height, g.out_width, g.stride[0] * g.stride[1] * pitch * 4
        launches.append(Launch(KernelSpec.of("pad_planes", stride=g.stride[1]), (
            source(0), x, g.images * g.groups * g.channels, g.height, g.width, height, g.pads[0], g.pads[1], pitch)))
    words = (
        x, target_of(0), packed(0), packed(1), table(0), residual_word(problem), g.images, g.groups, g.filters,
        g.channels * math.prod(g.kernel), rows, columns, g.groups * g.channels * plane, g.channels * plane, row_bytes,
        schedule["weights_first"],
    )  # fmt: skip
    launches.append(Launch(KernelSpec.of("direct_chf", kt=kt, nv=nv, epilogue=str(op.epilogue)), words))
    return Built(launches=tuple(launches), tables=(_offsets(g, pitch, plane),), scratch=nbytes)


CONV_DIRECT_F32_CHF = Routine(
    name="conv.direct.f32.chf",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
