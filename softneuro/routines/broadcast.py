"""Broadcast inputs as strides over the output's memory order, with axes joined where every input allows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softneuro.routines.formats import memory_order
from softneuro.types import Layout, Shape, TensorType, physical_shape

__all__ = ["Walk", "walk"]


@dataclass(frozen=True)
class Walk:
    """An output walked in memory order: ``sizes`` of the joined axes, outermost first, and strides of each input.

    strides[i][axis] is in bytes, 0 where input i is broadcast along the axis.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def padded(self, axes: int) -> Walk:
        """The same walk with leading axes of size 1, to ``axes`` in all."""
        missing = axes - len(self.sizes)
        return Walk((1,) * missing + self.sizes, tuple((0,) * missing + s for s in self.strides))


def _strides(type_: TensorType, layout: Layout) -> list[int]:
    """Bytes between neighbours along each logical axis of a dense tensor; 0 for axes of size 1."""
    shape = physical_shape(type_.shape, layout)
    strides = [0] * type_.rank
    for place, axis in enumerate(memory_order(type_.rank, layout)):
        if shape[place] != 1:
            strides[axis] = type_.dtype.itemsize * math.prod(shape[place + 1 :])
    return strides


def walk(shape: Shape, layout: Layout, inputs: Sequence[tuple[TensorType, Layout]]) -> Walk:
    """How to read ``inputs``, each dense in its own layout, along an output of logical ``shape`` in ``layout``."""
    aligned = [[0] * (len(shape) - t.rank) + _strides(t, own) for t, own in inputs]
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in inputs]
    for axis in memory_order(len(shape), layout):
        size = shape[axis]
        if size == 1:
            continue
        if sizes and all(mine[-1] == step[axis] * size for mine, step in zip(strides, aligned, strict=True)):
            sizes[-1] *= size
            for mine, step in zip(strides, aligned, strict=True):
                mine[-1] = step[axis]
            continue
        sizes.append(size)
        for mine, step in zip(strides, aligned, strict=True):
            mine.append(step[axis])
    return Walk(tuple(sizes) or (1,), tuple(tuple(mine) or (0,) for mine in strides))
