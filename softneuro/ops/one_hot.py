"""OneHot: a new axis along which one element differs from the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.limits import in_force
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, TensorType

__all__ = ["OneHot"]


@dataclass(frozen=True)
class OneHot(Op):
    """Inputs: indices (numbers), depth (one number) when it is not a parameter, and two values: off and on.

    The output has a new axis of size ``depth`` before ``axis``. Negative indices count from its end; an index outside
    of it leaves everything off. Raises ResourceLimitError above the limits in force.
    """

    name: ClassVar[str] = "one_hot"
    axis: int = -1
    depth: int | None = None

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.depth is not None:
            return None
        found = known_ints(types, values, 1, "the depth")
        if found is None or len(found) != 1:
            raise InputError(f"found depth {found}, needed one number")
        return Bound(replace(self, depth=found[0]), (0, 2))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        indices, values = tensor(types, 0, "indices"), tensor(types, 1, "off and on value")
        if self.depth is None or self.depth < 0 or values.size != 2:
            raise InputError(f"found depth {self.depth} and values {values}, needed at least 0 and two elements")
        axis = normal_axis(self.axis, indices.rank + 1)
        type_ = TensorType(values.dtype, (*indices.shape[:axis], self.depth, *indices.shape[axis:]))
        in_force().check_tensor(type_)
        return (type_,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        indices, values = inputs[0], inputs[1]
        assert indices is not None and values is not None and self.depth is not None
        self.infer((TensorType.of(indices), TensorType.of(values)))
        whole = np.expand_dims(indices.astype(np.int64), normal_axis(self.axis, indices.ndim + 1))
        shape = [1] * whole.ndim
        shape[self.axis] = self.depth
        place = np.where(whole < 0, whole + self.depth, whole)
        off, on = values.reshape(-1)
        return (np.where(place == np.arange(self.depth).reshape(shape), on, off),)
