"""GatherElements: single elements of a tensor picked by an index tensor of the same rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.ops.tuples import checked_indices
from softneuro.types import Array, TensorType

__all__ = ["GatherElements"]


@dataclass(frozen=True)
class GatherElements(Op):
    """Inputs: x and indices (int32 or int64, negative ones count from the end), of one rank.

    Output element p is x at p, with the coordinate on ``axis`` replaced by the index at p. The indices' other sizes
    are at most x's.
    """

    name: ClassVar[str] = "gather_elements"
    axis: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = tensor(types, 0, "tensor"), checked_indices(tensor(types, 1, "indices"))
        axis = normal_axis(self.axis, x.rank)
        if indices.rank != x.rank or any(
            i > size for a, (i, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if a != axis
        ):
            raise InputError(
                f"found indices {indices} for {x}, needed the same rank and no larger sizes except on axis {axis}"
            )
        return (TensorType(x.dtype, indices.shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, indices = inputs[0], inputs[1]
        assert x is not None and indices is not None
        axis = normal_axis(self.axis, x.ndim)
        size = x.shape[axis]
        outside = (indices < -size) | (indices >= size)
        if outside.any():
            raise InputError(f"found index {indices[outside].reshape(-1)[0]}, needed one from {-size} to {size - 1}")
        part = x[tuple(slice(None) if a == axis else slice(length) for a, length in enumerate(indices.shape))]
        return (np.take_along_axis(part, np.where(indices < 0, indices + size, indices), axis=axis),)
