"""Convolution of any rank, groups included (a depthwise convolution has as many groups as input channels)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.linear import finished, need_additions, need_spatial_ranks, need_windows
from softneuro.types import Array, TensorType

__all__ = ["Conv", "windows"]


def windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """Sliding windows of a padded (n, c, *spatial) array: a view of shape (n, c, *output, *kernel)."""
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, extents, axis=axes)
    step = [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilations]
    return view[(slice(None), slice(None), *step)]


@dataclass(frozen=True)
class Conv(Op):
    """Cross-correlation of x (n, c, *spatial) with weights (k, c / groups, *kernel), as ONNX's Conv.

    Inputs: x, weights, bias (k) when ``bias``, residual when the epilogue has one.
    pads: beginnings of every spatial axis, then ends, in elements.
    """

    name: ClassVar[str] = "conv"
    strides: tuple[int, ...]
    pads: tuple[int, ...]
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
        if self.groups < 1:
            raise InputError(f"found {self.groups} groups, needed 1 or more")
        if x.shape[1] != w.shape[1] * self.groups or w.shape[0] % self.groups:
            raise InputError(f"input has {x.shape[1]} channels, weights {w.shape} expect {w.shape[1]} x {self.groups} groups")
        sizes = []
        for axis in range(spatial):
            extent = (w.shape[2 + axis] - 1) * self.dilations[axis] + 1
            padded = x.shape[2 + axis] + self.pads[axis] + self.pads[axis + spatial]
            if padded < extent:
                raise InputError(f"axis {2 + axis} has {padded} elements with padding, the kernel needs {extent}")
            sizes.append((padded - extent) // self.strides[axis] + 1)
        shape = (x.shape[0], w.shape[0], *sizes)
        need_additions(types, self.bias, self.epilogue, w.shape[0], shape)
        return (TensorType(x.dtype, shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, w = inputs[0], inputs[1]
        assert x is not None and w is not None
        spatial = len(self.strides)
        margins = [(0, 0), (0, 0), *((self.pads[i], self.pads[i + spatial]) for i in range(spatial))]
        view = windows(np.pad(x, margins), w.shape[2:], self.strides, self.dilations)
        channels, filters = w.shape[1], w.shape[0] // self.groups
        parts = []
        for g in range(self.groups):
            part = view[:, g * channels : (g + 1) * channels]
            axes = (1, *range(2 + spatial, 2 + 2 * spatial))
            product = np.tensordot(part, w[g * filters : (g + 1) * filters], axes=(axes, tuple(range(1, w.ndim))))
            parts.append(np.moveaxis(product, -1, 1))
        return (finished(np.concatenate(parts, axis=1), inputs, self.bias, self.epilogue, spatial),)

    def macs(self, types: Types) -> int:
        (y,) = self.infer(types)
        w = types[1]
        assert w is not None
        return y.size * math.prod(w.shape[1:])
