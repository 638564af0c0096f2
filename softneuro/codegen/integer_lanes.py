"""Vectors of bytes, widened to int32 as they are loaded and narrowed as they are stored, as values inside kernels."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.emit import byte_offset, load_at, load_lanes, store_at
from softneuro.codegen.integer_forms import IntegerForm
from softneuro.codegen.lanes import vector_type
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, I64, build_intrinsic, call_intrinsic, first_lanes, splat_value

__all__ = ["IntegerLanes", "integer_lanes"]


@dataclass(frozen=True)
class IntegerLanes:
    """Intrinsics on vectors of int32 that stand for bytes. Addresses and counts are int64; ``n`` counts lanes.

    load(address), load_n(address, n): bytes, widened; missing lanes load as 0. store_elements(address, vector): as the
    form's elements, narrowed. pack(held, vector, position): the vector's low bits as element ``position`` of the form's
    group, beside those in ``held``; store_group(address, held) stores such a group for every lane. sum gives an int64.
    """

    lanes: int
    load: Any
    load_n: Any
    store_elements: Any
    store_int32: Any
    pack: Any
    store_group: Any
    splat: Any
    add: Any
    sub: Any
    mul: Any
    sum: Any


@functools.cache
def integer_lanes(target: Target, form: IntegerForm, signed: bool) -> IntegerLanes:
    """The intrinsics for bytes that are signed or not."""
    lanes, kind, i64 = target.f32_lanes, vector_type(target, "i32"), types.int64
    bits = 8 * form.bytes
    nbytes = ir.VectorType(ir.IntType(8), lanes)

    def widened(builder: Any, value: Any) -> Any:
        return (builder.sext if signed else builder.zext)(value, kind.llvm)

    def load(builder: Any, a: list[Any]) -> Any:
        return widened(builder, load_at(builder, byte_offset(builder, a[0], 0), nbytes, 1))

    def load_n(builder: Any, a: list[Any]) -> Any:
        pointer = byte_offset(builder, a[0], 0)
        return widened(builder, load_lanes(builder, pointer, nbytes, first_lanes(builder, a[1], lanes), 1))

    def store_as(width: int) -> Any:
        def store(builder: Any, a: list[Any]) -> None:
            narrow = builder.trunc(a[1], ir.VectorType(ir.IntType(width), lanes)) if width < 32 else a[1]
            store_at(builder, narrow, byte_offset(builder, a[0], 0), width // 8)

        return build_intrinsic(types.void, [i64, kind], store)

    def pack(builder: Any, a: list[Any]) -> Any:
        held, value, position = a
        low = builder.and_(value, ir.Constant(kind.llvm, [(1 << bits) - 1] * lanes))
        shift = splat_value(builder, builder.trunc(builder.mul(position, I64(bits)), I32), lanes)
        return builder.or_(held, builder.shl(low, shift))

    def total(builder: Any, a: list[Any]) -> Any:
        return builder.sext(call_intrinsic(builder, f"llvm.vector.reduce.add.v{lanes}i32", I32, a), I64)

    return IntegerLanes(
        lanes=lanes,
        load=build_intrinsic(kind, [i64], load),
        load_n=build_intrinsic(kind, [i64, i64], load_n),
        store_elements=store_as(bits),
        store_int32=store_as(32),
        pack=build_intrinsic(kind, [kind, kind, i64], pack),
        store_group=store_as(8 * form.step_bytes),
        splat=build_intrinsic(kind, [i64], lambda b, a: splat_value(b, b.trunc(a[0], I32), lanes)),
        add=build_intrinsic(kind, [kind, kind], lambda b, a: b.add(*a)),
        sub=build_intrinsic(kind, [kind, kind], lambda b, a: b.sub(*a)),
        mul=build_intrinsic(kind, [kind, kind], lambda b, a: b.mul(*a)),
        sum=build_intrinsic(i64, [kind], total),
    )
