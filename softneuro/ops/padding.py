"""Pad: a frame around a tensor, or with negative numbers a crop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, known_value, tensor
from softneuro.types import Array, TensorType

__all__ = ["Pad", "source_indices"]

_MODES = ("constant", "reflect", "edge", "wrap")


def source_indices(size: int, before: int, after: int, mode: str) -> Array:
    """For every element of a padded axis, the element of the original axis that it shows; -1 for the constant."""
    position = np.arange(-before, size + after)
    if mode == "constant" or size == 0:
        return np.where((position >= 0) & (position < size), position, -1)
    if mode == "edge":
        return np.clip(position, 0, size - 1)
    if mode == "wrap":
        return position % size
    folded = position % max(1, 2 * (size - 1))
    return np.minimum(folded, 2 * (size - 1) - folded) if size > 1 else np.zeros_like(position)


@dataclass(frozen=True)
class Pad(Op):
    """Inputs: x, then unless ``pads`` is set: pads (int64), optional value, optional axes.

    mode: constant, reflect (without repeating the edge), edge, wrap. pads: beginnings of all axes, then ends, in
    elements; negative numbers crop.
    """

    name: ClassVar[str] = "pad"
    mode: str = "constant"
    pads: tuple[int, ...] | None = None
    value: float = 0.0

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.pads is not None:
            return None
        x = tensor(types, 0, "tensor")
        pads = known_ints(types, values, 1, "pads")
        if pads is None:
            raise InputError("found no pads, needed them at input 1")
        value = known_value(types, values, 2, "pad values")
        axes = known_ints(types, values, 3, "axes")
        axes = tuple(range(x.rank)) if axes is None else axes
        if len(pads) != 2 * len(axes):
            raise InputError(f"found {len(pads)} pads, needed {2 * len(axes)} for axes {axes}")
        full = [0] * (2 * x.rank)
        for i, axis in enumerate(axes):
            position = normal_axis(axis, x.rank)
            full[position], full[x.rank + position] = pads[i], pads[len(axes) + i]
        number = self.value if value is None or value.size == 0 else value.reshape(-1)[0].item()
        return Bound(Pad(self.mode, tuple(full), number), (0,))

    def indices(self, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """`source_indices` of every axis. Raises InputError when an axis cannot be padded so."""
        return tuple(source_indices(size, *pads, self.mode) for size, pads in zip(shape, self._pads_of(shape), strict=True))

    def _pads_of(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Beginning and end of every axis. Raises InputError when an axis cannot be padded so."""
        if self.pads is None or len(self.pads) != 2 * len(shape):
            raise InputError(f"found pads {self.pads}, needed {2 * len(shape)} for shape {shape}")
        if self.mode not in _MODES:
            raise InputError(f"found pad mode {self.mode!r}, needed one of {', '.join(_MODES)}")
        found = []
        for axis, size in enumerate(shape):
            before, after = self.pads[axis], self.pads[axis + len(shape)]
            if size + before + after < 0:
                raise InputError(f"found pads {before} and {after}, needed to crop at most the {size} of axis {axis}")
            if size == 0 and self.mode != "constant" and before + after > 0:
                raise InputError(f"found an empty axis {axis}, needed elements to pad it with in mode {self.mode}")
            found.append((before, after))
        return found

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        sizes = (size + before + after for size, (before, after) in zip(x.shape, self._pads_of(x.shape), strict=True))
        return (TensorType(x.dtype, tuple(sizes)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        for axis, index in enumerate(self.indices(x.shape)):
            if x.shape[axis] == 0:
                x = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
            inside = (index >= 0).reshape(-1, *(1,) * (x.ndim - axis - 1))
            x = np.where(inside, np.take(x, np.maximum(index, 0), axis=axis), np.asarray(self.value).astype(x.dtype))
        return (x,)
