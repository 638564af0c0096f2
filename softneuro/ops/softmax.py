"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Op, Types, Values
from softneuro.types import Array, TensorType

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Op):
    """exp(x) / sum of exp(x) along ``axis``, or with ``log`` its natural logarithm, as ONNX from opset 13 on.

    A line whose largest element is infinite or that holds a NaN gives NaN, as the formula with the maximum
    subtracted does.
    """

    name: ClassVar[str] = "softmax"
    axis: int = -1
    log: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        normal_axis(self.axis, x.rank)
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        if x.size == 0:
            return (x,)
        with np.errstate(invalid="ignore"):
            shifted = x - np.max(x, axis=self.axis, keepdims=True)
        exponentials = np.exp(shifted)
        total = np.sum(exponentials, axis=self.axis, keepdims=True)
        y = shifted - np.log(total) if self.log else exponentials / total
        return (y.astype(x.dtype, copy=False),)
