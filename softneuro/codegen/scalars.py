"""Single numbers of any data type inside kernels: loads and stores by address, and keys that order them.

Data types are given by their short names (``f32``), as in problem texts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.emit import I64, byte_offset, load_at, store_at
from softneuro.codegen.vector import F32, build_intrinsic

__all__ = ["FLOAT_INFINITIES", "SIZES", "combination", "integer_access", "is_unsigned", "order_key", "scalar_access"]

SIZES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4,
         "i64": 8, "u64": 8, "f64": 8}
"""Bytes of an element."""

FLOAT_INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
"""The bits of infinity in the floats: those of NaN, without their sign, are larger."""

_FLOATS: dict[str, tuple[Any, Any]] = {"f32": (F32, types.float32), "f64": (ir.DoubleType(), types.float64)}


def is_unsigned(dtype: str) -> bool:
    """Whether the elements are integers without a sign, or booleans."""
    return dtype == "bool" or dtype.startswith("u")


def integer_access(dtype: str) -> tuple[Any, Any]:
    """The intrinsics ``load(address) -> int64`` and ``store(address, value)`` of an element's bits.

    Signed integers and floats are extended by their sign, the others by zeros.
    """
    size = SIZES[dtype]
    kind = ir.IntType(8 * size)
    unsigned = is_unsigned(dtype)

    def load(builder: Any, args: list[Any]) -> Any:
        value = load_at(builder, byte_offset(builder, args[0], 0), kind, size)
        if size == 8:
            return value
        return builder.zext(value, I64) if unsigned else builder.sext(value, I64)

    def store(builder: Any, args: list[Any]) -> None:
        value = builder.trunc(args[1], kind) if size < 8 else args[1]
        store_at(builder, value, byte_offset(builder, args[0], 0), size)

    return (build_intrinsic(types.int64, [types.int64], load),
            build_intrinsic(types.void, [types.int64, types.int64], store))


def scalar_access(dtype: str) -> tuple[Any, Any]:
    """The intrinsics ``load(address) -> value`` and ``store(address, value)`` for numbers to compute with.

    Values are float32 and float64 for those types, int64 for integers. Raises KeyError for other floats.
    """
    if dtype not in _FLOATS:
        if dtype in FLOAT_INFINITIES:
            raise KeyError(dtype)
        return integer_access(dtype)
    kind, value_type = _FLOATS[dtype]
    size = SIZES[dtype]

    def load(builder: Any, args: list[Any]) -> Any:
        return load_at(builder, byte_offset(builder, args[0], 0), kind, size)

    def store(builder: Any, args: list[Any]) -> None:
        store_at(builder, args[1], byte_offset(builder, args[0], 0), size)

    return (build_intrinsic(value_type, [types.int64], load),
            build_intrinsic(types.void, [types.int64, value_type], store))


def order_key(dtype: str) -> Any:
    """The function ``key(address) -> int64`` whose values are ordered as the elements are.

    Zeros of both signs have one key; NaN has the largest of all, above infinity.
    """
    load, _ = integer_access(dtype)
    if dtype == "u64":
        sign = -(1 << 63)
        return register_jitable(lambda address: load(address) ^ sign)
    if dtype not in FLOAT_INFINITIES:
        return register_jitable(lambda address: load(address))
    infinity, most = FLOAT_INFINITIES[dtype], (1 << (8 * SIZES[dtype] - 1)) - 1
    negative_zero = -most - 1

    @register_jitable
    def key(address: int) -> Any:
        bits = load(address)
        if (bits & most) > infinity:
            return most
        if bits == negative_zero:
            return 0
        return bits ^ ((bits >> 63) & most)

    return key


def combination(reduction: str) -> Any:
    """The function ``combine(held, update)`` of a scatter: add, mul, min, max (NaN of either wins), or none."""
    if reduction == "add":
        return register_jitable(lambda held, update: held + update)
    if reduction == "mul":
        return register_jitable(lambda held, update: held * update)
    if reduction == "min":
        return register_jitable(lambda held, update: held if held < update or held != held else update)
    if reduction == "max":
        return register_jitable(lambda held, update: held if held > update or held != held else update)
    return register_jitable(lambda held, update: update)
