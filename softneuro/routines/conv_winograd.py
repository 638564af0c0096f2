"""Winograd convolution with 3 x 3 filters, stride 1, channels last, float32: F(2 x 2) and F(4 x 4) outputs a tile.

A tile of m x m outputs costs (m + 2)^2 products a channel and filter where the direct way costs 9 m^2: 2.25 times
fewer for m = 2 and 4 times fewer for m = 4, whose rounding error is about twice the direct way's in the mean.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.conventions import CACHE_LINE, WINOGRAD_UNROLL
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.codegen.winograd_matrices import TAPS, minimal
from softneuro.memory import aligned_empty
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL
from softneuro.routines.linear import (
    bias_of,
    packed_signature,
    panels_of,
    reject_convolution,
    residual_word,
    weights_of,
)
from softneuro.routines.routine import (
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    Word,
    packed,
    scratch,
    source,
    table,
    target_of,
)
from softneuro.routines.sizes import odd_lines, round_up
from softneuro.types import Array

__all__ = ["CONV_WINOGRAD23_F32_CHL", "CONV_WINOGRAD43_F32_CHL", "tile_table", "transformed_panels"]

_BLOCKS = (14, 28, 56)
"""About how many tiles to transform at once: V should stay in a core's cache, and weights be read seldom."""


def _reject(problem: Problem, target: Target) -> str | None:
    op, w = cast(Conv, problem.op), problem.input(1)
    if w.shape[2:] != (TAPS, TAPS) or op.strides != (1, 1) or op.dilations != (1, 1) or op.groups != 1:
        return (f"found kernel {w.shape[2:]}, strides {op.strides}, dilations {op.dilations} and {op.groups} groups, "
                f"needed ({TAPS}, {TAPS}), (1, 1), (1, 1) and 1")
    return reject_convolution(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHL, F32_CHL),)


def _padded(depth: int) -> int:
    return round_up(depth, WINOGRAD_UNROLL)


def transformed_panels(weights: Array, m: int, width: int) -> Array:
    """Weights (k, c, 3, 3) as G w G^T in [panel][point][c, padded][width] float32, filled up with zeros."""
    filters, channels = weights.shape[:2]
    g = np.array([[float(v) for v in row] for row in minimal(m).weights])
    both = np.kron(g, g).astype(np.float32)
    points, taps = both.shape
    panels, depth = math.ceil(filters / width), _padded(channels)
    result = aligned_empty((panels, points, depth, width))
    part = np.zeros((depth * taps, width), np.float32)
    for panel in range(panels):
        rows = weights[panel * width : (panel + 1) * width]
        part[: channels * taps, : len(rows)] = rows.reshape(len(rows), -1).T
        part[:, len(rows) :] = 0.0
        # one small product for each channel: a BLAS would give a large one to its own threads, which may have to wait
        np.matmul(both, part.reshape(depth, taps, width), out=result[panel].transpose(1, 0, 2))
    return result


def _pack(m: int, problem: Problem, schedule: Schedule, target: Target,
          values: Sequence[Array | None]) -> tuple[Array, ...]:
    weights, width = weights_of(values), schedule["nv"] * target.f32_lanes
    bias = bias_of(problem, values, weights.shape[0])
    zero = np.zeros(weights.shape[1], np.float32)
    return transformed_panels(weights, m, width), panels_of(bias.reshape(1, -1), width), zero


def tile_table(problem: Problem, m: int) -> Array:
    """Where each tile of m x m outputs reads and writes: the int64 rows that `codegen.kernels.winograd` describes."""
    x, y = problem.input(0), problem.outputs[0]
    pads = cast(Conv, problem.op).pads
    images, filters, out_height, out_width = y.shape
    channels, height, width = x.shape[1:]
    image, row, column = np.meshgrid(np.arange(images), np.arange(0, out_height, m), np.arange(0, out_width, m),
                                     indexing="ij")
    top, left = row - pads[0], column - pads[1]
    columns = (
        ((image * height + top) * width + left) * channels * 4, top, left,
        ((image * out_height + row) * out_width + column) * filters * 4,
        np.minimum(m, out_height - row), np.minimum(m, out_width - column),
    )  # fmt: skip
    return np.stack(columns, axis=-1).reshape(-1, len(columns)).astype(np.int64)


def _tiles(problem: Problem, m: int) -> int:
    n, _, height, width = problem.outputs[0].shape
    return n * math.ceil(height / m) * math.ceil(width / m)


def _schedules(m: int, problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles in a block, and with several threads, whether these share the panels of a block (1) or the blocks (0).

    A block of nearly all tiles takes them all: a second one would read all the weights again. Panels have the width
    that wastes least on filters which do not exist; single vectors are about a tenth slower than wider ones.
    """
    vectors = math.ceil(problem.input(1).shape[0] / target.f32_lanes)
    nv = min((2, 3, 1), key=lambda wide: round_up(vectors, wide) * (1.1 if wide == 1 else 1.0))
    tiles, threads = _tiles(problem, m), problem.threads
    sizes = dict.fromkeys(tiles if tiles <= 2 * size else size for size in _BLOCKS)
    splits = [0, 1] if tiles >= _BLOCKS[0] * threads else [1, 0]
    if threads == 1 or math.ceil(vectors / nv) < threads:
        splits = [0]
    return tuple({"nv": nv, "tiles": size, "panels": split} for size in sizes for split in splits)


def _build(m: int, problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    x, y = problem.input(0), problem.outputs[0]
    nv, lanes, points, threads = schedule["nv"], target.f32_lanes, (m + TAPS - 1) ** 2, problem.threads
    depth, filters = x.shape[1], y.shape[1]
    panels, vectors = math.ceil(filters / (nv * lanes)), math.ceil(depth / lanes)
    tiles = _tiles(problem, m)
    blocks = math.ceil(tiles / schedule["tiles"])
    if not schedule["panels"]:
        blocks = min(tiles, round_up(blocks, threads))
    most = math.ceil(tiles / blocks)
    v_block = most * 4 * lanes
    v_point = odd_lines(vectors * v_block)
    v_bytes = points * v_point * (1 if schedule["panels"] else threads)
    m_bytes = most * (points * nv * lanes * 4 + CACHE_LINE)
    patch_bytes = 16 * points + max(points, 2 * m * m * nv) * 4 * lanes
    kernel = KernelSpec.of("winograd", m=m, nv=nv, epilogue=str(op.epilogue))

    def launch(phases: int, first: int, last: int) -> Launch:
        words: tuple[Word, ...] = (
            source(0), target_of(0), packed(0), packed(1), packed(2), residual_word(problem), table(0), phases, threads,
            first, last, blocks, tiles, x.shape[2], x.shape[3], y.shape[3], depth, filters, panels,
            (_padded(depth) - (vectors - 1) * lanes) // WINOGRAD_UNROLL, v_block, v_point,
            scratch(0), scratch(v_bytes), scratch(v_bytes + m_bytes * threads), m_bytes, patch_bytes,
        )  # fmt: skip
        return Launch(kernel, words)

    if schedule["panels"]:
        launches = tuple(launch(phase, block, block + 1) for block in range(blocks) for phase in (1, 2))
    else:
        launches = (launch(3, 0, blocks),)
    return Built(launches, (tile_table(problem, m),), v_bytes + (m_bytes + patch_bytes) * threads)


def _routine(m: int, tolerance: float) -> Routine:
    return Routine(
        name=f"conv.winograd{m}3.f32.chl",
        op=Conv,
        reject=_reject,
        signatures=_signatures,
        schedules=functools.partial(_schedules, m),
        pack=functools.partial(_pack, m),
        build=functools.partial(_build, m),
        packs=(1, 2),
        tolerance=tolerance,
        approximate=m > 2,
    )


# Largest errors measured, in the units of `Routine.tolerance`: 0.3 for F(2, 3) and 1.6 for F(4, 3), against 0.3 of the
# direct way; 0.8 and 10 where an activation clips outputs to a fraction of their range, which does not shrink errors.
CONV_WINOGRAD23_F32_CHL = _routine(2, 4.0)
CONV_WINOGRAD43_F32_CHL = _routine(4, 16.0)
