"""GridSample: a picture (or volume) read at places that a second tensor gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, TensorType

__all__ = ["CUBIC", "FARTHEST", "GridSample"]

CUBIC = -0.75
"""The parameter of the cubic kernel."""

FARTHEST = 2.0**24
"""Coordinates in pixels are limited to this distance; NaN lies there on the negative side."""


@dataclass(frozen=True)
class GridSample(Op):
    """Inputs: x (batch, channels, *sizes) and grid (batch, *places, axes), floats of one type, with as many axes as x
    has sizes; the last coordinate is that of the first axis. Output: (batch, channels, *places).

    -1 and 1 are the centres of the outer pixels (``align_corners``) or their outer edges.
    """

    name: ClassVar[str] = "grid_sample"
    mode: Literal["nearest", "linear", "cubic"] = "linear"
    padding: Literal["zeros", "border", "reflection"] = "zeros"
    align_corners: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, grid = tensor(types, 0, "tensor"), tensor(types, 1, "grid")
        axes = x.rank - 2
        if axes < 1 or grid.rank != x.rank or grid.shape[-1] != axes or grid.shape[0] != x.shape[0]:
            raise InputError(f"found {x} and grid {grid}, needed one batch size and a coordinate for each axis after two")
        if not x.dtype.is_float or not grid.dtype.is_float or 0 in x.shape[2:]:
            raise InputError(f"found {x} and grid {grid}, needed floats and at least one pixel")
        return (TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, grid = inputs[0], inputs[1]
        assert x is not None and grid is not None
        (type_,) = self.infer((TensorType.of(x), TensorType.of(grid)))
        axes = [self._taps(grid[..., -1 - axis], size) for axis, size in enumerate(x.shape[2:])]
        batch = np.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
        result = np.zeros((*grid.shape[:-1], x.shape[1]), x.dtype)
        for taps in np.ndindex(*(len(places) for places, _ in axes)):
            places = [p[t] for (p, _), t in zip(axes, taps, strict=True)]
            weight = np.prod([w[t] for (_, w), t in zip(axes, taps, strict=True)], axis=0)
            inside = np.logical_and.reduce([place >= 0 for place in places])
            # indices around the slice move the channels last
            values = x[(batch, slice(None), *(np.maximum(place, 0) for place in places))]
            result += np.where(inside[..., None], values * weight[..., None], 0).astype(x.dtype)
        return (np.moveaxis(result, -1, 1).reshape(type_.shape),)

    def _taps(self, coordinate: Array, size: int) -> tuple[Array, Array]:
        """Pixels (-1 outside) and their weights along one axis, each (taps, *places)."""
        real = coordinate.dtype.type
        half = real(0.5)
        if self.align_corners:
            position, low, high = (coordinate + real(1)) * half * real(size - 1), real(0), real(size - 1)
        else:
            position, low, high = ((coordinate + real(1)) * real(size) - real(1)) * half, -half, real(size) - half
        position = np.clip(np.where(np.isnan(position), -FARTHEST, position), -FARTHEST, FARTHEST).astype(real)
        if self.mode != "cubic" and self.padding == "border":
            position = np.clip(position, 0, real(size - 1))
        elif self.mode != "cubic" and self.padding == "reflection":
            position = np.where((position < low) | (position > high), _reflected(position, low, high), position)
        if self.mode == "nearest":
            pixels, weights = np.rint(position)[None], np.ones_like(position)[None]
        else:
            first = np.floor(position)
            part = position - first
            offsets, kernels = (_CUBIC_TAPS if self.mode == "cubic" else _LINEAR_TAPS)
            pixels = np.stack([first + real(offset) for offset in offsets])
            weights = np.stack([kernel(part) for kernel in kernels]).astype(real)
        return self._inside(pixels.astype(np.int64), size), weights

    def _inside(self, pixels: Array, size: int) -> Array:
        """Pixel numbers that exist, or -1 for places that are zero."""
        if self.padding == "zeros":
            return np.where((pixels >= 0) & (pixels < size), pixels, -1)
        if self.padding == "border":
            return np.clip(pixels, 0, size - 1)
        if self.align_corners:
            period = max(1, 2 * (size - 1))
            folded = np.abs(pixels) % period
            return np.where(folded >= size, period - folded, folded)
        folded = np.where(pixels < 0, -1 - pixels, pixels) % (2 * size)
        return np.where(folded >= size, 2 * size - 1 - folded, folded)


def _reflected(position: Array, low: float, high: float) -> Array:
    """Positions folded into the range from low to high."""
    span = high - low
    if span <= 0:
        return np.full_like(position, low)
    distance = np.abs(position - low)
    folds = np.floor(distance / span)
    rest = distance - folds * span
    return np.where(folds % 2 == 0, low + rest, high - rest)


def _near(t: Array) -> Array:
    """The cubic kernel at distances up to 1."""
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _far(t: Array) -> Array:
    """The cubic kernel at distances from 1 to 2."""
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


Kernels = tuple[tuple[int, ...], tuple[Callable[[Array], Array], ...]]
_LINEAR_TAPS: Kernels = ((0, 1), (lambda t: 1 - t, lambda t: t))
_CUBIC_TAPS: Kernels = ((-1, 0, 1, 2), (lambda t: _far(t + 1), _near, lambda t: _near(1 - t), lambda t: _far(2 - t)))
