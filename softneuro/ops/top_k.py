"""TopK: the largest or smallest elements along an axis, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK(Op):
    """Inputs: x, and k (one integer) when it is not a parameter. Outputs: the elements in order, and their int64
    positions along ``axis``.

    Of equal elements the one at the lower position comes first. NaN counts as larger than every number.
    """

    name: ClassVar[str] = "top_k"
    axis: int = -1
    k: int | None = None
    largest: bool = True

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.k is not None:
            return None
        found = known_ints(types, values, 1, "the number of elements")
        if found is None or len(found) != 1:
            raise InputError(f"found k = {found}, needed one number")
        return Bound(replace(self, k=found[0]), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        axis = normal_axis(self.axis, x.rank)
        if self.k is None or not 0 <= self.k <= x.shape[axis]:
            raise InputError(f"found k = {self.k}, needed 0 to {x.shape[axis]}, the size of axis {axis} of {x}")
        shape = (*x.shape[:axis], self.k, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType(DType.I64, shape)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None and self.k is not None
        self.infer((TensorType.of(x),))
        axis = normal_axis(self.axis, x.ndim)
        if self.largest:  # the last of a stable ascending order of the reversed elements
            order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        positions = np.take(order, np.arange(self.k), axis=axis).astype(np.int64)
        return np.take_along_axis(x, positions, axis=axis), positions
