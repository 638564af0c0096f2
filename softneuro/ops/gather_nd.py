"""GatherND: slices of a tensor picked by tuples of coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.ops.tuples import checked_indices, normal_tuples
from softneuro.types import Array, TensorType

__all__ = ["GatherND"]


@dataclass(frozen=True)
class GatherND(Op):
    """Inputs: x and indices (int32 or int64), whose last axis holds coordinates of x from axis ``batch_dims`` on.

    The first ``batch_dims`` axes of both are the same. The output has the indices' shape without the last axis, then
    x's axes that no coordinate names. Negative coordinates count from the end.
    """

    name: ClassVar[str] = "gather_nd"
    batch_dims: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices, b = tensor(types, 0, "tensor"), checked_indices(tensor(types, 1, "indices")), self.batch_dims
        if not 0 <= b < min(x.rank, indices.rank) or x.shape[:b] != indices.shape[:b]:
            raise InputError(f"found {x} and indices {indices}, needed {b} equal axes in front and one more in both")
        depth = indices.shape[-1]
        if not 1 <= depth <= x.rank - b:
            raise InputError(f"found {depth} coordinates in a tuple, needed 1 to {x.rank - b} for {x}")
        return (TensorType(x.dtype, (*indices.shape[:-1], *x.shape[b + depth :])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, indices = inputs[0], inputs[1]
        assert x is not None and indices is not None
        (type_,) = self.infer((TensorType.of(x), TensorType.of(indices)))
        b, depth = self.batch_dims, indices.shape[-1]
        tuples = normal_tuples(indices, x.shape[b : b + depth])
        batches = np.indices(x.shape[:b]).reshape(b, *x.shape[:b], *[1] * (indices.ndim - 1 - b))
        return (x[(*batches, *np.moveaxis(tuples, -1, 0))].reshape(type_.shape),)
