"""Gather: slices of a tensor picked by an index tensor (embeddings are its usual form)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["Gather"]


@dataclass(frozen=True)
class Gather(Op):
    """Inputs: x and indices (int32 or int64, negative ones count from the end).

    The output has x's shape with ``axis`` replaced by the shape of the indices.
    """

    name: ClassVar[str] = "gather"
    axis: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = tensor(types, 0, "tensor"), tensor(types, 1, "indices")
        if indices.dtype not in (DType.I32, DType.I64):
            raise InputError(f"found {indices.dtype} indices, needed i32 or i64")
        axis = normal_axis(self.axis, x.rank)
        return (TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, indices = inputs[0], inputs[1]
        assert x is not None and indices is not None
        size = x.shape[self.axis]
        outside = (indices < -size) | (indices >= size)
        if outside.any():
            raise InputError(f"found index {indices[outside].reshape(-1)[0]}, needed one from {-size} to {size - 1}")
        return (np.take(x, indices, axis=self.axis),)
