"""ZipMap: rows of scores as dictionaries from label to score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import DynamicShape
from softneuro.ops.base import Op, Types, Values
from softneuro.types import Array, TensorType

__all__ = ["ZipMap"]


@dataclass(frozen=True)
class ZipMap(Op):
    """A list with a dictionary from label to score for every row of a matrix; it is no tensor."""

    name: ClassVar[str] = "zip_map"
    labels: tuple[int | str, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("found a sequence of maps, which has no shape")

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        (scores,) = inputs
        assert scores is not None
        rows = [dict(zip(self.labels, row, strict=False)) for row in np.atleast_2d(scores).tolist()]
        return (rows,)  # type: ignore[return-value]
