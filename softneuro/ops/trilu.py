"""Trilu: the upper or lower triangle of matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, TensorType

__all__ = ["Trilu"]


@dataclass(frozen=True)
class Trilu(Op):
    """Inputs: x of rank 2 or more, and k (one integer) when it is not a parameter.

    Keeps what lies on or above the diagonal ``k`` places right of the main one (upper), or on or below it; the rest is 0.
    """

    name: ClassVar[str] = "trilu"
    upper: bool = True
    k: int = 0

    def bind(self, types: Types, values: Values) -> Bound | None:
        found = known_ints(types, values, 1, "the diagonal")
        if found is None:
            return None
        if len(found) != 1:
            raise InputError(f"found diagonal {found}, needed one number")
        return Bound(replace(self, k=found[0]), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if x.rank < 2:
            raise InputError(f"found {x}, needed a tensor of rank 2 or more")
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        above = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
        return (np.where(above >= self.k if self.upper else above <= self.k, x, np.zeros((), x.dtype)),)
