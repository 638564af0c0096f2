"""Ops where every axis shows elements of the same input axis, chosen by an index for each: pads, nearest resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from softneuro.codegen.bulk import ELEMENT_SIZES, pattern_word
from softneuro.codegen.jit import KernelSpec
from softneuro.routines.routine import Built, Launch, source, table, target_of
from softneuro.types import Array, Layout, TensorType, physical_shape

__all__ = ["remap"]


_FACTORS = (2, 3, 4)


def _identical(index: Array, size: int) -> bool:
    return len(index) == size and bool((index == np.arange(size)).all())


def _middle(index: Array, size: int) -> tuple[int, int]:
    """The longest run from output position ``start`` to ``stop`` that shows consecutive elements: (start, stop)."""
    if not len(index):
        return 0, 0
    breaks = np.flatnonzero((np.diff(index) != 1) | (index[:-1] < 0)) + 1
    edges = [0, *breaks.tolist(), len(index)]
    start, stop = max(zip(edges[:-1], edges[1:], strict=True), key=lambda run: (run[1] - run[0], -run[0]))
    return (start, stop) if index[start] >= 0 and stop - start > 1 else (0, 0)


def _repeats(index: Array, size: int) -> int:
    """How often each of ``size`` elements is repeated in a row; 0 when the index is not of that form."""
    factor = len(index) // size
    whole = factor in _FACTORS and len(index) == factor * size
    return factor if whole and bool((index == np.arange(len(index)) // factor).all()) else 0


def remap(x: TensorType, layout: Layout, indices: Sequence[Array], fill: bytes) -> Built:
    """Launches for an output whose element (i, j, ...) is ``x[indices[0][i], indices[1][j], ...]``.

    A negative index shows ``fill``, the bytes of one element, instead. Input and output have the same layout.
    """
    shape = physical_shape(x.shape, layout)
    order = (0, *range(2, x.rank), 1) if layout is Layout.CHL else tuple(range(x.rank))
    maps = [np.asarray(indices[axis], np.int64) for axis in order]
    if math.prod(len(index) for index in maps) == 0:
        return Built()
    changed = [i for i in range(x.rank) if not _identical(maps[i], shape[i])]
    if not changed:
        return Built(alias=0)
    first, last = changed[0], changed[-1]
    images = math.prod(shape[:first])
    unit = x.dtype.itemsize * math.prod(shape[last + 1 :])
    row_offsets = np.zeros(1, np.int64)
    inside = np.ones(1, np.bool_)
    for axis in range(first, last):
        row_offsets = (row_offsets[:, None] * shape[axis] + np.maximum(maps[axis], 0)).reshape(-1)
        inside = (inside[:, None] & (maps[axis] >= 0)).reshape(-1)
    row_offsets = np.where(inside, row_offsets * shape[last] * unit, -1)
    index = maps[last]
    image_bytes = (unit * math.prod(shape[first : last + 1]), unit * len(row_offsets) * len(index))
    common = (source(0), target_of(0), table(0), images, *image_bytes, len(row_offsets))
    factor = _repeats(index, shape[last])
    if factor and unit in ELEMENT_SIZES and (row_offsets >= 0).all():
        kernel = KernelSpec.of("repeat", size=unit, factor=factor)
        return Built(launches=(Launch(kernel, (*common, shape[last])),), tables=(row_offsets,))
    start, stop = _middle(index, shape[last])
    borders = np.concatenate([index[:start], index[stop:]])
    units = np.where(borders < 0, -1, borders * unit)
    words = (*common, table(1), start, int(index[start]) * unit if stop > start else 0, (stop - start) * unit,
             len(index) - stop, unit, pattern_word(fill))
    kernel = KernelSpec.of("remap", unit=unit if unit in ELEMENT_SIZES else 0)
    return Built(launches=(Launch(kernel, words),), tables=(row_offsets, units if len(units) else np.zeros(1, np.int64)))
