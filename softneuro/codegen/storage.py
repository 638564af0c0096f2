"""float32 vectors on their way to and from memory that keeps fewer bits: f16, bf16 and qint8 beside f32.

A qint8 byte b stands for (b - zero) * scale; both numbers are float32 vectors, read once by `quantisation_numbers`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import constant, maximum_value, minimum_value
from softneuro.codegen.emit import I8, byte_offset, load_lanes, splat_at, store_lanes
from softneuro.codegen.half import narrowed_value, widened_value
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic

__all__ = ["STORED_BYTES", "Numbers", "byte_value", "load_stored", "quantisation_numbers", "round_value", "store_stored"]

STORED_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "qint8": 1}
"""Bytes of an element by what it is kept as."""
Numbers = tuple[Any, Any]
"""Scale and zero point of qint8, as float32 vectors."""
_I16 = ir.IntType(16)
_HIGHEST = 255.0


def quantisation_numbers(builder: Any, pointer: Any, lanes: int) -> Numbers:
    """Scale and zero point from two float32 at a byte pointer."""
    return splat_at(builder, pointer, lanes), splat_at(builder, byte_offset(builder, pointer, 4), lanes)


def round_value(builder: Any, x: Any) -> Any:
    """The nearest whole numbers, ties to even."""
    return call_intrinsic(builder, f"llvm.roundeven.v{x.type.count}f32", x.type, [x])


def byte_value(builder: Any, steps: Any, zero: Any) -> Any:
    """int8 lanes (unsigned) of whole numbers of steps plus the zero point, within 0 to 255; NaN becomes 0."""
    moved = builder.fadd(steps, zero)
    within = minimum_value(builder, constant(moved, _HIGHEST), maximum_value(builder, moved, constant(moved, 0.0)))
    words = builder.fptosi(within, ir.VectorType(I32, steps.type.count))
    return builder.trunc(words, ir.VectorType(I8, steps.type.count))


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
    scale, zero = numbers
    words = builder.zext(load_lanes(builder, pointer, ir.VectorType(I8, lanes), mask, 1), ir.VectorType(I32, lanes))
    return builder.fmul(builder.fsub(builder.sitofp(words, floats), zero), scale)


def store_stored(builder: Any, target: Target, value: Any, pointer: Any, dtype: str, mask: Any = None,
                 numbers: Numbers | None = None) -> None:
    """Keep a float32 vector as ``dtype`` at a byte pointer (with a mask, only its lanes). numbers: of qint8."""
    if dtype == "qint8":
        assert numbers is not None
        scale, zero = numbers
        value = byte_value(builder, round_value(builder, builder.fdiv(value, scale)), zero)
    elif dtype != "f32":
        value = narrowed_value(builder, target, value, dtype)
    store_lanes(builder, value, pointer, mask, 4 if dtype == "f32" else 1)
