"""Transposed convolution of any rank as one ordinary convolution for each phase of the strides, channels last, float32.

Output positions with the same remainder modulo the stride are reached by the same taps, so each such *phase* is an
indirect GEMM over a part of the kernel, and no zeros between input pixels are ever multiplied. Where windows do not
overlap along the last axis, all its phases are one phase with more filters, since its outputs lie side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from softneuro.codegen.conventions import TRANSPOSE_LINE_WORDS
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL
from softneuro.routines.linear import (
    NUMBERS_OF_VECTORS,
    bias_of,
    packed_signature,
    panels_of,
    register_tiles,
    reject_convolution,
    reject_large_image,
    residual_word,
    weights_of,
)
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
from softneuro.routines.sizes import round_up
from softneuro.types import Array, Shape

__all__ = ["CONV_TRANSPOSE_GEMM_F32_CHL"]


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_convolution(problem) or reject_large_image(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHL, F32_CHL),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles that pad the filters least first; their rows are pixels of a line."""
    folded = _folded(problem)
    pixels = max(1, math.ceil(folded.output[-1] / folded.op.strides[-1]))
    vectors = math.ceil(folded.filters / target.f32_lanes)
    widths = sorted(NUMBERS_OF_VECTORS, key=lambda nv: round_up(vectors, nv))
    return register_tiles(pixels, vectors, target, widths)


@dataclass(frozen=True)
class _Folded:
    """A transposed convolution whose last axis may have become part of the filters.

    fold: how many columns became one, 1 if the windows overlap. filters: of a group. output: (k, *spatial).
    """

    op: ConvTranspose
    fold: int
    filters: int
    kernel: Shape
    output: Shape


def _folded(problem: Problem) -> _Folded:
    op = cast(ConvTranspose, problem.op)
    filters, *kernel = problem.input(1).shape[1:]
    k, *spatial = problem.outputs[0].shape[1:]
    stride, axes = op.strides[-1], len(op.strides)
    apart = kernel[-1] == stride and op.dilations[-1] == 1 and op.output_padding[-1] == 0
    if op.groups > 1 or not apart or op.pads[axes - 1] or op.pads[-1]:
        return _Folded(op, 1, filters, tuple(kernel), (k, *spatial))
    return _Folded(replace(op, strides=(*op.strides[:-1], 1)), stride, filters * stride, (*kernel[:-1], 1),
                   (k * stride, *spatial[:-1], spatial[-1] // stride))


@dataclass(frozen=True)
class _Phase:
    """Output positions of given remainders: their taps along each axis, and the first of them in a panel.

    shifts: along each axis and for each tap, input position minus output position divided by the stride.
    """

    remainders: Shape
    taps: tuple[Shape, ...]
    shifts: tuple[Shape, ...]
    first: int


def _phases(op: ConvTranspose, kernel: Shape) -> tuple[_Phase, ...]:
    """All phases. Taps lie in a panel phase by phase; phases without any use a tap of zeros at its end."""
    phases: list[_Phase] = []
    first = 0
    for remainders in itertools.product(*map(range, op.strides)):
        taps, shifts = [], []
        for axis, remainder in enumerate(remainders):
            reach = [remainder + op.pads[axis] - tap * op.dilations[axis] for tap in range(kernel[axis])]
            taps.append(tuple(tap for tap, r in enumerate(reach) if r % op.strides[axis] == 0))
            shifts.append(tuple(r // op.strides[axis] for r in reach if r % op.strides[axis] == 0))
        count = math.prod(map(len, taps))
        phases.append(_Phase(remainders, tuple(taps), tuple(shifts), first if count else math.prod(kernel)))
        first += count
    return tuple(phases)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    folded = _folded(problem)
    op, kernel, groups = folded.op, folded.kernel, folded.op.groups
    width = schedule["nv"] * target.f32_lanes
    weights = weights_of(values)
    bias = bias_of(problem, values, groups * weights.shape[1])
    if folded.fold > 1:
        weights, bias = np.moveaxis(weights, -1, 1), np.tile(bias, folded.fold)
    taps = [tap for phase in _phases(op, kernel) for tap in itertools.product(*phase.taps)]
    order = [int(np.ravel_multi_index(tap, kernel)) for tap in taps]
    grouped = weights.reshape(groups, weights.shape[0] // groups, folded.filters, -1)[..., order]
    with_zero_tap = np.concatenate([grouped, np.zeros((*grouped.shape[:3], 1), np.float32)], axis=3)
    return (panels_of(with_zero_tap.transpose(0, 3, 1, 2), width), panels_of(bias.reshape(groups, -1), width),
            np.zeros(grouped.shape[1], np.float32))


def _counts(phase: _Phase, op: ConvTranspose, sizes: Shape) -> Shape:
    """How many output positions of each axis belong to the phase."""
    return tuple(len(range(r, size, s)) for r, size, s in zip(phase.remainders, sizes, op.strides, strict=True))


def _line_offsets(phase: _Phase, valid: tuple[tuple[bool, ...], ...], pixels: int, tiles: int, mr: int, shape: Shape,
                  base: int) -> Array:
    """int32 [tile][tap][mr]: byte offsets from input pixel ``base`` of a line's start, -1 in the padding.

    valid: for each outer axis, whether each tap's input lies inside the image. Rows past the last pixel repeat it.
    """
    channels, spatial = shape[0], shape[1:]
    columns = np.minimum(np.arange(tiles * mr), pixels - 1)
    rows = []
    for outer in itertools.product(*(range(len(taps)) for taps in phase.taps[:-1])):
        inside = all(valid[axis][tap] for axis, tap in enumerate(outer))
        start = sum(phase.shifts[axis][tap] * math.prod(spatial[axis + 1 :]) for axis, tap in enumerate(outer))
        for shift in phase.shifts[-1]:
            position = columns + shift
            usable = (position >= 0) & (position < spatial[-1]) & inside
            rows.append(np.where(usable, (start + position - base) * channels * 4, -1))
    if not rows:
        rows.append(np.full(tiles * mr, -1))
    return np.stack(rows).reshape(len(rows), tiles, mr).transpose(1, 0, 2).astype(np.int32)


def _lines(op: ConvTranspose, phases: Sequence[_Phase], shape: Shape, output: Shape, mr: int) -> tuple[Array, Array]:
    """The kernel's line table (int64) and its offsets (int32); lines whose taps lie alike share their offsets.

    shape: (c, *spatial) of the input; output: (k, *spatial).
    """
    spatial, sizes = shape[1:], output[1:]
    tiles = math.ceil(math.ceil(sizes[-1] / op.strides[-1]) / mr)
    lines: list[tuple[int, ...]] = []
    blocks: list[Array] = []
    size = 0
    for phase in phases:
        *outer_counts, pixels = _counts(phase, op, sizes)
        if not pixels:
            continue
        count = max(1, math.prod(map(len, phase.taps)))
        strides = [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial))]
        base = sum(min(shifts, default=0) * stride for shifts, stride in zip(phase.shifts, strides, strict=True))
        known: dict[tuple[tuple[bool, ...], ...], int] = {}
        for outer in itertools.product(*map(range, outer_counts)):
            valid = tuple(tuple(0 <= q + shift < spatial[axis] for shift in phase.shifts[axis])
                          for axis, q in enumerate(outer))
            if valid not in known:
                known[valid] = size
                blocks.append(_line_offsets(phase, valid, pixels, tiles, mr, shape, base).reshape(-1))
                size += blocks[-1].nbytes
            x_pixel = base + sum(q * stride for q, stride in zip(outer, strides, strict=False))
            rows = [q * s + r for q, s, r in zip(outer, op.strides, phase.remainders, strict=False)]
            y_pixel = int(np.ravel_multi_index((*rows, phase.remainders[-1]), sizes))
            lines.append((pixels, count, phase.first, known[valid], x_pixel * shape[0] * 4, y_pixel * output[0] * 4))
    return np.array(lines, np.int64).reshape(-1, TRANSPOSE_LINE_WORDS), np.concatenate([*blocks, np.zeros(0, np.int32)])


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    folded = _folded(problem)
    op, output, filters = folded.op, folded.output, folded.filters
    x = problem.input(0)
    mr, nv = schedule["mr"], schedule["nv"]
    if not math.prod(output):
        return Built()
    lines, offsets = _lines(op, _phases(op, folded.kernel), x.shape[1:], output, mr)
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), packed(2), residual_word(problem), table(1), len(lines),
        math.ceil(math.ceil(output[-1] / op.strides[-1]) / mr), x.shape[1] // op.groups, filters,
        math.ceil(filters / (nv * target.f32_lanes)), op.groups, x.shape[0],
        4 * math.prod(x.shape[1:]), 4 * math.prod(output), 4 * output[0] * op.strides[-1],
        math.prod(folded.kernel) + 1,
    )  # fmt: skip
    kernel = KernelSpec.of("transpose_gemm", mr=mr, nv=nv, epilogue=str(op.epilogue))
    return Built(launches=(Launch(kernel, words),), tables=(offsets, lines))


CONV_TRANSPOSE_GEMM_F32_CHL = Routine(
    name="conv_transpose.gemm.f32.chl",
    op=ConvTranspose,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
