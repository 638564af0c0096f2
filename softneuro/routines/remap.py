"""Ops where every axis shows elements of the same input axis, chosen by an index for each: pads, nearest resizing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from softneuro.codegen.elements import FEW, pattern_word
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.routines.formats import memory_order
from softneuro.routines.routine import Built, Launch, Schedule, Signature, source, table, target_of
from softneuro.types import Array, Layout, Shape, TensorType, physical_shape

__all__ = ["enlarging_kernels", "padding_kernels", "remap"]


def _remap_kernel(x: TensorType) -> KernelSpec:
    return KernelSpec.of("remap", size=x.dtype.itemsize)


def _repeat_kernel(x: TensorType) -> KernelSpec:
    return KernelSpec.of("repeat", size=x.dtype.itemsize)


def padding_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                    target: Target) -> tuple[KernelSpec, ...]:
    """The kernels of `remap` when it may not enlarge."""
    return (_remap_kernel(problem.input(0)),)


def enlarging_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                      target: Target) -> tuple[KernelSpec, ...]:
    """The kernels of `remap` when it may enlarge."""
    return _remap_kernel(problem.input(0)), _repeat_kernel(problem.input(0))


def _identical(index: Array, size: int) -> bool:
    return len(index) == size and bool((index == np.arange(size)).all())


def _repeats(index: Array, size: int) -> int:
    """How often each of ``size`` elements is repeated in a row; 0 when the index is not of that form."""
    factor = len(index) // max(1, size)
    whole = factor in FEW and len(index) == factor * size
    return factor if whole and bool((index == np.arange(len(index)) // factor).all()) else 0


def _middle(index: Array) -> tuple[int, int]:
    """The longest run of output positions that shows consecutive elements: (first, past the last)."""
    breaks = np.flatnonzero((np.diff(index) != 1) | (index[:-1] < 0)) + 1
    runs = itertools.pairwise([0, *breaks.tolist(), len(index)])
    start, stop = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
    return (start, stop) if index[start] >= 0 and stop - start > 1 else (0, 0)


def _row_offsets(maps: Sequence[Array], shape: Shape, row_bytes: int) -> Array:
    """Byte offset of the source row of every output row (int64), -1 for rows of the fill."""
    offsets, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
    for index, size in zip(maps, shape, strict=True):
        offsets = (offsets[:, None] * size + np.maximum(index, 0)).reshape(-1)
        inside = (inside[:, None] & (index >= 0)).reshape(-1)
    return np.where(inside, offsets * row_bytes, -1)


def remap(x: TensorType, layout: Layout, indices: Sequence[Array], fill: bytes, *, enlarges: bool = False) -> Built:
    """Launches for an output whose element (i, j, ...) is ``x[indices[0][i], indices[1][j], ...]``.

    A negative index shows ``fill``, the bytes of one element, instead. Input and output have the same layout.
    enlarges: elements may all be repeated a few times, which has a kernel of its own.
    Axes before the first that changes are images, the last that changes makes rows, what follows it a unit.
    """
    shape = physical_shape(x.shape, layout)
    maps = [np.asarray(indices[axis], np.int64) for axis in memory_order(x.rank, layout)]
    if math.prod(len(index) for index in maps) == 0:
        return Built()
    changed = [i for i in range(x.rank) if not _identical(maps[i], shape[i])]
    if not changed:
        return Built(alias=0)
    first, last = changed[0], changed[-1]
    unit = x.dtype.itemsize * math.prod(shape[last + 1 :])
    index, size = maps[last], shape[last]
    rows = _row_offsets(maps[first:last], shape[first:last], size * unit)
    common = (source(0), target_of(0), table(0), math.prod(shape[:first]), unit * math.prod(shape[first : last + 1]),
              unit * len(rows) * len(index), len(rows))
    factor = _repeats(index, size) if enlarges and unit == x.dtype.itemsize else 0
    if factor and (rows >= 0).all():
        return Built(launches=(Launch(_repeat_kernel(x), (*common, size, factor)),), tables=(rows,))
    start, stop = _middle(index)
    borders = np.concatenate([index[:start], index[stop:], [-1]])  # never empty, so that it has an address
    words = (*common, table(1), start, max(0, int(index[start])) * unit, (stop - start) * unit, len(index) - stop, unit,
             pattern_word(fill))
    return Built(launches=(Launch(_remap_kernel(x), words),), tables=(rows, np.where(borders < 0, -1, borders * unit)))
