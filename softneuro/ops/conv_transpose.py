"""Transposed convolution of any rank and groups: the gradient of Conv with respect to its input."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.linear import finished, need_additions, need_spatial_ranks, need_windows
from softneuro.types import Array, TensorType

__all__ = ["ConvTranspose"]


@dataclass(frozen=True)
class ConvTranspose(Op):
    """Spreads each element of x (n, c, *spatial) over a window of weights (c, k / groups, *kernel), as in ONNX.

    Inputs: x, weights, bias (k) when ``bias``, residual when the epilogue has one.
    Input position i of an axis reaches output positions ``i * stride + tap * dilation - pad``. pads: how much is cut
    off the beginnings of every spatial axis, then the ends; output_padding: how much longer each axis is at its end.
    """

    name: ClassVar[str] = "conv_transpose"
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    bias: bool = False
    epilogue: Epilogue = NO_EPILOGUE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, w = types[0], types[1]
        assert x is not None and w is not None
        spatial = len(self.strides)
        need_spatial_ranks(x, w, spatial)
        need_windows(spatial, self.strides, self.pads, self.dilations)
        if self.groups < 1 or len(self.output_padding) != spatial or min(self.output_padding, default=0) < 0:
            raise InputError(f"found {self.groups} groups and output padding {self.output_padding}, needed 1 or more groups and "
                             f"{spatial} numbers of 0 or more")
        if x.shape[1] != w.shape[0] or x.shape[1] % self.groups:
            raise InputError(f"input has {x.shape[1]} channels in {self.groups} groups, weights are for {w.shape[0]}")
        sizes = []
        for axis in range(spatial):
            size = self._full_size(axis, x.shape[2 + axis], w.shape[2 + axis])
            size -= self.pads[axis] + self.pads[axis + spatial]
            if size < 0:
                raise InputError(f"axis {2 + axis} has {size} elements after cutting off the pads, needed 0 or more")
            sizes.append(size)
        shape = (x.shape[0], w.shape[1] * self.groups, *sizes)
        need_additions(types, self.bias, self.epilogue, shape[1], shape)
        return (TensorType(x.dtype, shape),)

    def _full_size(self, axis: int, size: int, kernel: int) -> int:
        """Elements of an output axis before the pads are cut off."""
        return (size - 1) * self.strides[axis] + (kernel - 1) * self.dilations[axis] + 1 + self.output_padding[axis]

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, w = inputs[0], inputs[1]
        assert x is not None and w is not None
        spatial, sizes = len(self.strides), x.shape[2:]
        channels, filters = x.shape[1] // self.groups, w.shape[1]
        full = [self._full_size(axis, sizes[axis], w.shape[2 + axis]) for axis in range(spatial)]
        y = np.zeros((x.shape[0], filters * self.groups, *full), x.dtype)
        for g, taps in itertools.product(range(self.groups), itertools.product(*map(range, w.shape[2:]))):
            part = x[:, g * channels : (g + 1) * channels]
            tap: tuple[Any, ...] = (..., *taps)
            weights = w[g * channels : (g + 1) * channels][tap]
            starts = [tap * dilation for tap, dilation in zip(taps, self.dilations, strict=True)]
            window: tuple[Any, ...] = (..., *(slice(start, start + size * stride, stride)
                                              for start, size, stride in zip(starts, sizes, self.strides, strict=True)))
            own = y[:, g * filters : (g + 1) * filters]
            own[window] += np.moveaxis(np.tensordot(part, weights, axes=((1,), (0,))), -1, 1)
        kept: tuple[Any, ...] = (..., *(slice(self.pads[axis], full[axis] - self.pads[axis + spatial])
                                        for axis in range(spatial)))
        return (finished(y[kept], inputs, self.bias, self.epilogue, spatial),)

    def macs(self, types: Types) -> int:
        x, w = types[0], types[1]
        assert x is not None and w is not None
        return x.size * math.prod(w.shape[1:])
