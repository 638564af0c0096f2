"""Adapt: the same logical tensor in another format. Selection inserts it between routines that disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, TensorType

__all__ = ["Adapt"]


@dataclass(frozen=True)
class Adapt(Op):
    """x, unchanged as a logical tensor; which formats it goes between is said by the routine's signature."""

    name: ClassVar[str] = "adapt"

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (tensor(types, 0, "tensor"),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        return (x,)
