"""ScatterElements and ScatterND: a copy of a tensor with elements or slices written to selected places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.ops.tuples import checked_indices, normal_tuples
from softneuro.types import Array, TensorType

__all__ = ["REDUCTIONS", "ScatterElements", "ScatterND"]


def _put(held: Array, places: Any, updates: Array) -> None:
    held[places] = updates


REDUCTIONS: Mapping[str, Callable[[Array, Any, Array], None]] = {
    "none": _put,
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}
"""How an update joins what is there, in place: (tensor, places, updates). Without a reduction the last update of a
place stays."""


def _checked_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}, needed one of {', '.join(REDUCTIONS)}")


@dataclass(frozen=True)
class ScatterElements(Op):
    """Inputs: x, indices (int32 or int64), updates of the indices' shape and x's type.

    The update at p goes to x's place p with the coordinate on ``axis`` replaced by the index at p. Negative indices
    count from the end.
    """

    name: ClassVar[str] = "scatter_elements"
    axis: int = 0
    reduction: str = "none"

    def __post_init__(self) -> None:
        _checked_reduction(self.reduction)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = tensor(types, 0, "tensor"), checked_indices(tensor(types, 1, "indices"))
        updates = tensor(types, 2, "updates")
        axis = normal_axis(self.axis, x.rank)
        if indices.rank != x.rank or any(
            i > size for a, (i, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if a != axis
        ):
            raise InputError(
                f"found indices {indices} for {x}, needed the same rank and no larger sizes except on axis {axis}"
            )
        if updates != TensorType(x.dtype, indices.shape):
            raise InputError(f"found updates {updates}, needed {TensorType(x.dtype, indices.shape)}")
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, indices, updates = inputs[:3]
        assert x is not None and indices is not None and updates is not None
        axis = normal_axis(self.axis, x.ndim)
        along = normal_tuples(indices.reshape(-1, 1), (x.shape[axis],)).reshape(indices.shape)
        around: tuple[Array, ...] = np.indices(indices.shape, sparse=True)
        places = tuple(along if a == axis else place for a, place in enumerate(around))
        result = x.copy()
        REDUCTIONS[self.reduction](result, places, updates)
        return (result,)


@dataclass(frozen=True)
class ScatterND(Op):
    """Inputs: x, indices (int32 or int64) whose last axis holds coordinates of x's first axes, and updates: a slice of
    x for each tuple. Negative coordinates count from the end.
    """

    name: ClassVar[str] = "scatter_nd"
    reduction: str = "none"

    def __post_init__(self) -> None:
        _checked_reduction(self.reduction)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, indices = tensor(types, 0, "tensor"), checked_indices(tensor(types, 1, "indices"))
        updates = tensor(types, 2, "updates")
        depth = indices.shape[-1] if indices.rank else 0
        if not 1 <= depth <= x.rank:
            raise InputError(f"found {depth} coordinates in a tuple, needed 1 to {x.rank} for {x}")
        needed = TensorType(x.dtype, (*indices.shape[:-1], *x.shape[depth:]))
        if updates != needed:
            raise InputError(f"found updates {updates}, needed {needed}")
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, indices, updates = inputs[:3]
        assert x is not None and indices is not None and updates is not None
        tuples = normal_tuples(indices, x.shape[: indices.shape[-1]])
        result = x.copy()
        REDUCTIONS[self.reduction](result, tuple(np.moveaxis(tuples, -1, 0)), updates)
        return (result,)
