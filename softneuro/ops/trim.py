"""Trim: the used part of a tensor that was made large enough for every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from softneuro.errors import DynamicShape
from softneuro.ops.base import Op, Types, Values
from softneuro.types import Array, TensorType

__all__ = ["Trim"]


@dataclass(frozen=True)
class Trim(Op):
    """Inputs: x, and a number n (integer, one element). The first n rows of x."""

    name: ClassVar[str] = "trim"

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("the number of rows depends on the data of the run")

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, count = inputs[0], inputs[1]
        assert x is not None and count is not None
        return (x[: int(count.reshape(-1)[0])].copy(),)
