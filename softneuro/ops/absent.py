"""Absent: an optional that holds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from softneuro.errors import DynamicShape
from softneuro.ops.base import Op, Types, Values
from softneuro.types import Array, TensorType

__all__ = ["Absent"]


@dataclass(frozen=True)
class Absent(Op):
    """An empty optional, which is None during a run. No inputs."""

    name: ClassVar[str] = "absent"

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("an empty optional is no tensor")

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (None,)  # type: ignore[return-value]  # only the host passes it on
