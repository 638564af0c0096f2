"""float32 vectors on their way to and from memory that keeps fewer bits: f16, bf16 and qint8 beside f32.

A qint8 byte b stands for (b - zero) * scale; both are read once by `quantisation_numbers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import constant, maximum_value, minimum_value
from softneuro.codegen.emit import I8, byte_offset, load_lanes, splat_at, store_lanes
from softneuro.codegen.half import narrowed_value, widened_value
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, fma_value

__all__ = ["STORED_BYTES", "Numbers", "byte_value", "load_stored", "quantisation_numbers", "store_stored"]

STORED_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "qint8": 1}
"""Bytes of an element by what it is kept as."""
_I16 = ir.IntType(16)
_HIGHEST = 255.0
_WHOLE = 1.5 * 2.0**23
"""Added to a smaller float32, it leaves the nearest whole number (ties to even) in the lowest bits of the sum."""


@dataclass(frozen=True)
class Numbers:
    """A quantisation as float32 vectors: scale, zero point, 1 / scale, and the least and largest number with a byte."""

    scale: Any
    zero: Any
    inverse: Any
    low: Any
    high: Any


def quantisation_numbers(builder: Any, pointer: Any, lanes: int) -> Numbers:
    """What is needed of the scale and the zero point at a byte pointer, two float32."""
    scale, zero = splat_at(builder, pointer, lanes), splat_at(builder, byte_offset(builder, pointer, 4), lanes)
    low = builder.fneg(builder.fmul(zero, scale))
    high = builder.fmul(builder.fsub(constant(zero, _HIGHEST), zero), scale)
    return Numbers(scale, zero, builder.fdiv(constant(scale, 1.0), scale), low, high)


def byte_value(builder: Any, target: Target, value: Any, numbers: Numbers) -> Any:
    """int8 lanes (unsigned) of the bytes nearest to a float32 vector (ties to even); NaN becomes 0.

    The quotient is that of a division: the product with the reciprocal, corrected by what it leaves of the dividend
    (Markstein, 1990).
    """
    lanes = value.type.count
    words = ir.VectorType(I32, lanes)
    value = minimum_value(builder, numbers.high, maximum_value(builder, value, numbers.low))
    if target.fma:
        quotient = builder.fmul(value, numbers.inverse)
        rest = fma_value(builder, target, builder.fneg(quotient), numbers.scale, value)
        quotient = fma_value(builder, target, rest, numbers.inverse, quotient)
    else:
        quotient = builder.fdiv(value, numbers.scale)
    steps = builder.bitcast(builder.fadd(quotient, constant(quotient, _WHOLE)), words)
    return builder.trunc(builder.add(steps, builder.fptosi(numbers.zero, words)), ir.VectorType(I8, lanes))


def load_stored(builder: Any, target: Target, pointer: Any, dtype: str, lanes: int, mask: Any = None,
                numbers: Numbers | None = None) -> Any:
    """The float32 vector of ``lanes`` elements kept as ``dtype`` at a byte pointer (with a mask, only its lanes are read).

    numbers: of qint8.
    """
    floats = ir.VectorType(F32, lanes)
    if dtype == "f32":
        return load_lanes(builder, pointer, floats, mask)
    if dtype != "qint8":
        return widened_value(builder, target, load_lanes(builder, pointer, ir.VectorType(_I16, lanes), mask, 1), dtype)
    assert numbers is not None
    words = builder.zext(load_lanes(builder, pointer, ir.VectorType(I8, lanes), mask, 1), ir.VectorType(I32, lanes))
    return builder.fmul(builder.fsub(builder.sitofp(words, floats), numbers.zero), numbers.scale)


def store_stored(builder: Any, target: Target, value: Any, pointer: Any, dtype: str, mask: Any = None,
                 numbers: Numbers | None = None, *, tiny: bool = True) -> None:
    """Keep a float32 vector as ``dtype`` at a byte pointer (with a mask, only its lanes). numbers: of qint8.

    tiny: see `narrowed_value`.
    """
    if dtype == "qint8":
        assert numbers is not None
        value = byte_value(builder, target, value, numbers)
    elif dtype != "f32":
        value = narrowed_value(builder, target, value, dtype, tiny=tiny)
    store_lanes(builder, value, pointer, mask, 4 if dtype == "f32" else 1)
