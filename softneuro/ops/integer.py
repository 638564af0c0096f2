"""Products of integers, and layers that quantise what they multiply while they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.ops.base import Op, Types, Values
from softneuro.ops.matmul import MatMul
from softneuro.ops.recurrent import Recurrent
from softneuro.types import Array, DType, TensorType

__all__ = ["IntegerMatMul", "QuantisedStateLstm"]


@dataclass(frozen=True)
class IntegerMatMul(Op):
    """(a - a_zero) times (b - b_zero) in int32, as ONNX's MatMulInteger: 8-bit integers, sums that wrap around.

    Inputs: a (..., m, k), b (..., k, n), optional a_zero (scalar or broadcast to a), b_zero (scalar, n, or broadcast to b).
    """

    name: ClassVar[str] = "integer_matmul"

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = types[0], types[1]
        assert a is not None and b is not None
        wide = (TensorType(DType.I32, a.shape), TensorType(DType.I32, b.shape))
        return MatMul().infer(wide)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        a, b, a_zero, b_zero = (*inputs, None, None)[:4]
        assert a is not None and b is not None
        left = a.astype(np.float64) - (0.0 if a_zero is None else _rows(a_zero, a.ndim))
        right = b.astype(np.float64) - (0.0 if b_zero is None else b_zero.astype(np.float64))
        exact = np.asarray(np.matmul(left, right))  # float64 holds sums of 2^37 such products
        return (exact.astype(np.int64).astype(np.int32),)

    def macs(self, types: Types) -> int:
        a, b = types[0], types[1]
        assert a is not None and b is not None
        return MatMul().macs((TensorType(DType.I32, a.shape), TensorType(DType.I32, b.shape)))


def _rows(zero: Array, rank: int) -> Array:
    """A zero point for each row of a matrix stands along its last axis but one."""
    real = zero.astype(np.float64)
    return real[:, None] if zero.ndim == 1 and zero.size > 1 and rank >= 2 else real.reshape(()) if zero.size == 1 else real


@dataclass(frozen=True)
class QuantisedStateLstm(Recurrent):
    """An LSTM that rounds its hidden state to 8 bits before every product: onnxruntime's DynamicQuantizeLSTM.

    The range of each step's states, 0 included, of a direction's elements that ran a step before, is divided into 255
    steps. Inputs as of `Recurrent`, but r as whole numbers (i8, or i16 where these do not fit), and last, at position 8,
    the real number that a one of them stands for: scales (d, 4 * hidden) in float32. x and w are the real numbers that
    quantised ones stand for.
    """

    name: ClassVar[str] = "quantised_state_lstm"

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, w, r, *others, scales = inputs
        assert r is not None and scales is not None
        return super().reference((x, w, r.astype(scales.dtype) * scales[:, :, None], *others))

    def _recalled(self, hidden: Array, r: Array, ran: Array) -> Array:
        return super()._recalled(_rounded_to_bytes(np.where(ran, hidden, 0)), r, ran)


def _rounded_to_bytes(x: Array) -> Array:
    low, high = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
    scale = np.float32((high - low) / np.float32(255.0)) or np.float32(1.0)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    steps = np.clip(np.rint(x / scale) + zero, 0, 255)
    real: Array = (steps - zero) * scale
    return real
