"""CumSum: running sums along an axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, TensorType

__all__ = ["CumSum"]


@dataclass(frozen=True)
class CumSum(Op):
    """Inputs: x, and the axis (one integer) when it is not a parameter. Sums are of x's type.

    exclusive: an element's own value is left out of its sum. reverse: sums run from the end of the axis.
    """

    name: ClassVar[str] = "cum_sum"
    axis: int | None = None
    exclusive: bool = False
    reverse: bool = False

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.axis is not None:
            return None
        found = known_ints(types, values, 1, "the axis")
        if found is None or len(found) != 1:
            raise InputError(f"found axis {found}, needed one number")
        return Bound(replace(self, axis=found[0]), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        normal_axis(self.axis if self.axis is not None else 0, x.rank)
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None and self.axis is not None
        axis = normal_axis(self.axis, x.ndim)
        turned = np.flip(x, axis) if self.reverse else x
        sums = np.cumsum(turned, axis=axis, dtype=x.dtype)
        if self.exclusive:
            zeros = np.zeros_like(sums.take([0] if x.shape[axis] else [], axis))
            sums = np.concatenate([zeros, sums.take(np.arange(max(0, x.shape[axis] - 1)), axis)], axis)
        return (np.flip(sums, axis) if self.reverse else sums,)
