"""Float tensors kept as bytes: a scale and a zero point for each tensor, and every format's meaning in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softneuro.types import Array, DType, Format, to_layout, to_logical

__all__ = ["Quantisation", "decoded", "encoded", "restored"]

_STEPS = 255


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How a float tensor is kept in 8 bits: the byte b stands for the number (b - zero) * scale.

    scale: positive and finite; zero: 0 to 255, the byte of 0.0. Raises ValueError for others.
    """

    scale: float
    zero: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0 and 0 <= self.zero <= _STEPS):
            raise ValueError(f"found scale {self.scale} and zero point {self.zero}, needed a positive scale and 0 to {_STEPS}")

    @classmethod
    def of_range(cls, low: float, high: float) -> Quantisation:
        """The quantisation whose bytes reach from ``low`` to ``high``; the range is widened so that it has 0, exactly."""
        low, high = min(float(low), 0.0), max(float(high), 0.0)
        scale = float(np.float32((high - low) / _STEPS))
        if not (math.isfinite(scale) and scale >= np.finfo(np.float32).tiny):
            return cls(1.0, 0)
        return cls(scale, int(np.clip(np.rint(-low / scale), 0, _STEPS)))

    @property
    def low(self) -> float:
        """The least number that there is a byte for."""
        return -self.zero * self.scale

    @property
    def high(self) -> float:
        """The largest number that there is a byte for."""
        return (_STEPS - self.zero) * self.scale

    def quantised(self, values: Array) -> Array:
        """uint8 of the nearest bytes (ties to even), numbers out of range at its ends, NaN as the byte 0."""
        steps = np.rint(np.asarray(values, np.float32) / np.float32(self.scale)) + np.float32(self.zero)
        nearest: Array = np.clip(np.nan_to_num(steps, nan=0.0), 0, _STEPS).astype(np.uint8)
        return nearest

    def dequantised(self, values: Array) -> Array:
        """float32 of what the bytes stand for."""
        real: Array = (values.astype(np.float32) - np.float32(self.zero)) * np.float32(self.scale)
        return real


def encoded(array: Array, format_: Format, quantisation: Quantisation | None = None) -> Array:
    """A tensor (logical order) as it lies in memory in a format: rounded to its data type, in its order.

    quantisation: needed for qint8.
    """
    if format_.dtype is DType.QINT8:
        assert quantisation is not None
        array = quantisation.quantised(array)
    elif format_.dtype is not DType.of(array.dtype):
        array = array.astype(format_.dtype.numpy)
    return to_layout(array, format_.layout)


def decoded(array: Array, format_: Format, dtype: DType, quantisation: Quantisation | None = None) -> Array:
    """Inverse of `encoded`: the tensor of data type ``dtype``, in logical order, that memory stands for."""
    return restored(to_logical(array, format_.layout), format_.dtype, dtype, quantisation)


def restored(array: Array, kept: DType, dtype: DType, quantisation: Quantisation | None = None) -> Array:
    """The elements of data type ``dtype`` that elements kept as ``kept`` stand for. quantisation: needed for qint8."""
    if kept is DType.QINT8:
        assert quantisation is not None
        return quantisation.dequantised(array)
    return array if kept is dtype else array.astype(dtype.numpy)
