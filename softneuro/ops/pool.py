"""Pooling over windows of the spatial axes, and over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.conv import windows
from softneuro.ops.linear import need_windows
from softneuro.ops.reduce import KINDS
from softneuro.types import Array, Shape, TensorType

__all__ = ["GlobalPool", "Pool", "tap_counts"]

PoolKind = Literal["max", "average"]


@dataclass(frozen=True)
class Pool(Op):
    """Maximum or average over sliding windows of x (n, c, *spatial), as ONNX's MaxPool and AveragePool.

    pads: beginnings of every spatial axis, then ends, in elements. Padding never wins a maximum (it is the lowest
    value); an average is over the elements inside x, or with ``count_include_pad`` inside x and its pads.
    ceil_mode: also windows that hang over the end, as long as they start inside x or its first pad.
    A window without any element gives the lowest value, or NaN for averages.
    """

    name: ClassVar[str] = "pool"
    kind: PoolKind
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False
    count_include_pad: bool = False

    def output_size(self, axis: int, size: int) -> int:
        """How many windows fit spatial axis ``axis`` of ``size`` elements.

        Raises InputError when the padded axis is smaller than the kernel.
        """
        extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        stride, begin = self.strides[axis], self.pads[axis]
        free = size + begin + self.pads[axis + len(self.kernel)] - extent
        if free < 0:
            found = free + extent
            raise InputError(f"axis {2 + axis} has {found} elements with padding, the kernel needs {extent}")
        count = (math.ceil(free / stride) if self.ceil_mode else free // stride) + 1
        return count - 1 if self.ceil_mode and (count - 1) * stride >= size + begin else count

    def output_sizes(self, spatial: Shape) -> Shape:
        """Spatial output sizes. Raises InputError when the padded input is smaller than the kernel."""
        return tuple(self.output_size(axis, size) for axis, size in enumerate(spatial))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        if x.rank != len(self.kernel) + 2:
            raise InputError(f"input has shape {x.shape}, needed rank {len(self.kernel) + 2}")
        need_windows(len(self.kernel), self.strides, self.pads, self.dilations)
        if min(self.kernel, default=1) < 1:
            raise InputError(f"found kernel {self.kernel}, needed sizes of 1 or more")
        return (TensorType(x.dtype, (*x.shape[:2], *self.output_sizes(x.shape[2:]))),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        view = windows(self._padded(x), self.kernel, self.strides, self.dilations)
        axes = tuple(range(x.ndim, view.ndim))
        if self.kind == "max":
            return (view.max(axis=axes),)
        counts = np.ones(1)
        for axis in range(len(self.kernel)):
            counts = counts[..., None] * tap_counts(self, axis, x.shape[2 + axis])
        with np.errstate(all="ignore"):
            return ((view.sum(axis=axes) / counts[0]).astype(x.dtype, copy=False),)

    def _padded(self, x: Array) -> Array:
        """x with its pads, cut or extended at the ends to just what the windows cover."""
        margins = [(0, 0), (0, 0)]
        for axis, outputs in enumerate(self.output_sizes(x.shape[2:])):
            extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            covered = (outputs - 1) * self.strides[axis] + extent
            margins.append((self.pads[axis], max(0, covered - self.pads[axis] - x.shape[2 + axis])))
        if self.kind == "average":
            return np.pad(x, margins)
        is_integer = np.issubdtype(x.dtype, np.integer)
        return np.pad(x, margins, constant_values=np.iinfo(x.dtype).min if is_integer else -np.inf)


def tap_counts(op: Pool, axis: int, size: int) -> Array:
    """How many elements of spatial axis ``axis`` (``size`` elements long) each output position averages."""
    outputs = op.output_size(axis, size)
    position = (np.arange(outputs)[:, None] * op.strides[axis] - op.pads[axis]
                + np.arange(op.kernel[axis])[None, :] * op.dilations[axis])
    low, high = (-op.pads[axis], size + op.pads[axis + len(op.kernel)]) if op.count_include_pad else (0, size)
    counts: Array = ((position >= low) & (position < high)).sum(axis=1)
    return counts


@dataclass(frozen=True)
class GlobalPool(Op):
    """Maximum or average over all spatial axes of x (n, c, *spatial), giving (n, c, 1, ...).

    Without any element they give the lowest value, or NaN for averages.
    """

    name: ClassVar[str] = "global_pool"
    kind: PoolKind

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        if x.rank < 2:
            raise InputError(f"input has shape {x.shape}, needed rank 2 or more")
        return (TensorType(x.dtype, (*x.shape[:2], *(1,) * (x.rank - 2))),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        with np.errstate(all="ignore"):
            pooled = KINDS["max" if self.kind == "max" else "mean"](x, tuple(range(2, x.ndim)))
        return (pooled.astype(x.dtype, copy=False),)
