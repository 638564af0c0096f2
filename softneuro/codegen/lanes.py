"""Vectors of any element type as values inside kernels: as many lanes as a float32 vector of the target has.

``numbers = lanes_of(target, "i64")`` gives the intrinsics; see `softneuro.codegen.vector` for how kernels use them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I64, VectorType, build_intrinsic, first_lanes, masked_load, masked_store, splat_value

__all__ = ["ElementVectors", "element_type", "is_float", "lanes_of", "scalar_type", "vector_type", "widened"]

_FLOATS: Mapping[str, tuple[ir.Type, Any, int]] = {"f32": (F32, types.float32, 4), "f64": (ir.DoubleType(), types.float64, 8)}


@dataclass(frozen=True)
class ElementVectors:
    """Intrinsics on vectors of one element type. Addresses and counts are int64; ``n`` counts lanes.

    bytes: of one element. splat takes the element (integers of any width as int64); count(n) is the number n in every
    lane. load_n(address, n) has 0 in missing lanes, load_or(address, n, other) those of another vector.
    multiply_add(a, b, c) is a * b + c, rounded twice and wrapping around.
    """

    lanes: int
    bytes: int
    load: Any
    store: Any
    load_n: Any
    load_or: Any
    store_n: Any
    splat: Any
    splat_at: Any
    count: Any
    multiply_add: Any


def is_float(dtype: str) -> bool:
    """Whether elements are floats, not integers."""
    return dtype in _FLOATS


def element_type(dtype: str) -> ir.Type:
    """The LLVM type of an element: f32, f64 or an integer type like u8."""
    return _FLOATS[dtype][0] if dtype in _FLOATS else ir.IntType(int(dtype[1:]))


def scalar_type(dtype: str) -> types.Type:
    """The numba type of an element that left its vector: int64 for all integers."""
    number: types.Type = _FLOATS[dtype][1] if dtype in _FLOATS else types.int64
    return number


def widened(builder: Any, element: Any) -> Any:
    """An element that left its vector, as its `scalar_type`. Only the element's own bits mean anything."""
    narrow = isinstance(element.type, ir.IntType) and element.type.width < 64
    return builder.zext(element, I64) if narrow else element


def vector_type(target: Target, dtype: str) -> VectorType:
    """The numba type of a vector."""
    return VectorType(element_type(dtype), target.f32_lanes)


@functools.cache
def lanes_of(target: Target, dtype: str) -> ElementVectors:
    """The intrinsics for an element type: f32, f64 or an integer type like u8."""
    lanes, element, kind = target.f32_lanes, element_type(dtype), vector_type(target, dtype)
    vector, i64, number = kind.llvm, types.int64, scalar_type(dtype)
    size = _FLOATS[dtype][2] if dtype in _FLOATS else element.width // 8

    def pointer(builder: Any, address: Any, pointee: ir.Type = vector) -> Any:
        return builder.inttoptr(address, pointee.as_pointer())

    def narrow(builder: Any, value: Any) -> Any:
        return value if value.type == element else builder.trunc(value, element)

    def store(builder: Any, a: list[Any]) -> None:
        builder.store(a[1], pointer(builder, a[0]), align=size)

    def load_n(builder: Any, a: list[Any]) -> Any:
        other = a[2] if len(a) > 2 else None
        return masked_load(builder, pointer(builder, a[0]), vector, first_lanes(builder, a[1], lanes), other, size)

    def store_n(builder: Any, a: list[Any]) -> None:
        masked_store(builder, a[1], pointer(builder, a[0]), first_lanes(builder, a[2], lanes), align=size)

    def splat_at(builder: Any, a: list[Any]) -> Any:
        return splat_value(builder, builder.load(pointer(builder, a[0], element), align=size), lanes)

    def count(builder: Any, a: list[Any]) -> Any:
        one = builder.sitofp(a[0], element) if is_float(dtype) else narrow(builder, a[0])
        return splat_value(builder, one, lanes)

    def multiply_add(builder: Any, a: list[Any]) -> Any:
        if is_float(dtype):
            return builder.fadd(builder.fmul(a[0], a[1]), a[2])
        return builder.add(builder.mul(a[0], a[1]), a[2])

    return ElementVectors(
        lanes=lanes,
        bytes=size,
        load=build_intrinsic(kind, [i64], lambda b, a: b.load(pointer(b, a[0]), align=size)),
        store=build_intrinsic(types.void, [i64, kind], store),
        load_n=build_intrinsic(kind, [i64, i64], load_n),
        load_or=build_intrinsic(kind, [i64, i64, kind], load_n),
        store_n=build_intrinsic(types.void, [i64, kind, i64], store_n),
        splat=build_intrinsic(kind, [number], lambda b, a: splat_value(b, narrow(b, a[0]), lanes)),
        splat_at=build_intrinsic(kind, [i64], splat_at),
        count=build_intrinsic(kind, [i64], count),
        multiply_add=build_intrinsic(kind, [kind] * 3, multiply_add),
    )
