"""Patches: what each step of a moving window sees, as one row; products with the rows are convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.conv import windows
from softneuro.ops.parameters import tensor
from softneuro.types import Array, TensorType

__all__ = ["Patches"]


@dataclass(frozen=True)
class Patches(Op):
    """x (n, *spatial, c) → (n, *output, elements of the kernel * c): window by window, its elements with their channels."""

    name: ClassVar[str] = "patches"
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if x.rank != len(self.kernel) + 2:
            raise InputError(f"found {x}, needed {len(self.kernel)} spatial axes")
        sizes = []
        for axis, (kernel, stride, dilation) in enumerate(zip(self.kernel, self.strides, self.dilations, strict=True), 1):
            extent = (kernel - 1) * dilation + 1
            if x.shape[axis] < extent:
                raise InputError(f"axis {axis} has {x.shape[axis]} elements with padding, the kernel needs {extent}")
            sizes.append((x.shape[axis] - extent) // stride + 1)
        return (TensorType(x.dtype, (x.shape[0], *sizes, math.prod(self.kernel) * x.shape[-1])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        (y,) = self.infer((TensorType.of(x),))
        seen = windows(np.moveaxis(x, -1, 1), self.kernel, self.strides, self.dilations)
        return (np.ascontiguousarray(np.moveaxis(seen, 1, -1)).reshape(y.shape),)
