"""RoiAlign: regions of pictures sampled to one size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.ops.tuples import checked_indices
from softneuro.types import Array, TensorType

__all__ = ["MOST_SAMPLES", "RoiAlign"]

MOST_SAMPLES = 1024
"""Samples along an axis of a bin; more are never taken, whatever the size of a region."""


@dataclass(frozen=True)
class RoiAlign(Op):
    """Inputs: x (pictures, channels, height, width), regions (n, 4) as x and y of two corners, and the picture of each
    (n). Output: (n, channels, bins_down, bins_across).

    A bin is the mean of its samples, or the largest of their weighted neighbours (mode max, as onnxruntime has it).
    sampling: samples along each axis of a bin, 0 for as many as it is pixels long. half_pixel: pixels have their
    centres at halves; without it regions are at least 1 pixel wide and high.
    """

    name: ClassVar[str] = "roi_align"
    bins_down: int = 1
    bins_across: int = 1
    mode: Literal["avg", "max"] = "avg"
    sampling: int = 0
    scale: float = 1.0
    half_pixel: bool = True

    def __post_init__(self) -> None:
        if self.bins_down < 1 or self.bins_across < 1 or not 0 <= self.sampling <= MOST_SAMPLES:
            raise ValueError(
                f"roi_align has {self.bins_down}x{self.bins_across} bins of {self.sampling} samples, needed at least 1 bin "
                f"and 0 to {MOST_SAMPLES} samples"
            )

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, regions = tensor(types, 0, "tensor"), tensor(types, 1, "regions")
        pictures = checked_indices(tensor(types, 2, "picture numbers"))
        if x.rank != 4 or not x.dtype.is_float or 0 in (x.shape[0], *x.shape[2:]):
            raise InputError(f"found {x}, needed floats of rank 4 with at least one pixel")
        n = pictures.size
        if regions != TensorType(x.dtype, (n, 4)) or pictures.rank != 1:
            raise InputError(f"found regions {regions} of pictures {pictures}, needed {x.dtype}[n,4] and n numbers")
        return (TensorType(x.dtype, (n, x.shape[1], self.bins_down, self.bins_across)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, regions, pictures = inputs[:3]
        assert x is not None and regions is not None and pictures is not None
        (type_,) = self.infer([None if v is None else TensorType.of(v) for v in inputs])
        outside = (pictures < 0) | (pictures >= x.shape[0])
        if outside.any():
            raise InputError(f"found picture {pictures[outside][0]}, needed one from 0 to {x.shape[0] - 1}")
        result = np.zeros(type_.shape, x.dtype)
        for number, (region, picture) in enumerate(zip(regions, pictures, strict=True)):
            left, top, right, bottom = region * x.dtype.type(self.scale) - x.dtype.type(0.5 if self.half_pixel else 0)
            down = self._samples(top, bottom, self.bins_down, x.shape[2])
            across = self._samples(left, right, self.bins_across, x.shape[3])
            result[number] = self._bins(x[picture], down, across)
        return (result,)

    def _samples(self, start: Any, end: Any, bins: int, size: int) -> tuple[Array, Array, Array]:
        """Two neighbours and their weights, 0 outside, of all samples along an axis: each (2, bins, samples)."""
        extent = end - start if self.half_pixel else np.maximum(end - start, 1)
        step = extent / bins
        wanted = np.ceil(step) if step > 0 else 0
        count = self.sampling or int(min(wanted, MOST_SAMPLES))
        grid = np.arange(count) + type(step)(0.5)
        position = start + np.arange(bins)[:, None].astype(step.dtype) * step + grid.astype(step.dtype) * step / max(1, count)
        inside = (position >= -1) & (position <= size)
        position = np.clip(np.where(inside, position, 0), 0, size - 1).astype(step.dtype)
        low = np.minimum(position.astype(np.int64), size - 1)
        part = position - low
        weights = np.stack([1 - part, part]) * inside
        return np.stack([low, np.minimum(low + 1, size - 1)]), weights.astype(step.dtype), inside

    def _bins(self, x: Array, down: tuple[Array, Array, Array], across: tuple[Array, Array, Array]) -> Array:
        """The bins of one region of a picture (channels, height, width)."""
        (rows, row_weights, _), (columns, column_weights, _) = down, across
        if not rows.size or not columns.size:
            return np.zeros((x.shape[0], *rows.shape[1:2], *columns.shape[1:2]), x.dtype)
        neighbours = [
            x[:, rows[i][:, :, None, None], columns[j][None, None]]
            * (row_weights[i][:, :, None, None] * column_weights[j][None, None])
            for i in (0, 1) for j in (0, 1)
        ]  # each (channels, bins down, samples, bins across, samples)
        if self.mode == "max":
            return np.asarray(np.max(np.stack(neighbours), axis=(0, 3, 5)))
        return np.asarray(np.mean(np.sum(np.stack(neighbours), axis=0), axis=(2, 4)))
