"""Every byte replaced by what a table of 256 bytes has for it.

Words: 0 bytes, 1 x, 2 y, 3 table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_at, load_lanes, micro_kernel, store_at, store_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import call_intrinsic, first_lanes

__all__ = ["make"]

_REGISTER = 64  # bytes of the registers that hold the table, and of a thread's shares
_AT_ONCE = 8


def make(target: Target) -> Callable[[int, int, int], None]:
    """The kernel: by permutations of registers where the target has AVX512-VBMI, else byte by byte."""
    fast = target.vector_bits == 512 and "+avx512vbmi" in target.features.split(",")
    run = micro_kernel("lookup_run", 4, _permuted if fast else _one_by_one)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        count, x, y = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        parts = (count + _REGISTER - 1) // _REGISTER
        first = parts * tid // nthreads * _REGISTER
        end = min(parts * (tid + 1) // nthreads * _REGISTER, count)
        if first < end:
            run(x + first, y + first, load_i64(args, 3), end - first)

    return kernel


def _permuted(builder: Any, arguments: list[Any]) -> None:
    """``run(x, y, table, count)``: each half of the table is two registers; the highest bit of a byte chooses the half."""
    x, y, table, count = arguments
    vector = ir.VectorType(I8, _REGISTER)
    parts = [load_at(builder, byte_offset(builder, table, _REGISTER * i), vector, 1) for i in range(4)]

    def replace(start: Any, mask: Any) -> None:
        keys = load_lanes(builder, byte_offset(builder, x, start), vector, mask, 1)
        low, high = (call_intrinsic(builder, "llvm.x86.avx512.vpermi2var.qi.512", vector, [a, keys, b])
                     for a, b in (parts[:2], parts[2:]))
        upper = builder.icmp_signed("<", keys, ir.Constant(vector, [0] * _REGISTER))
        store_lanes(builder, builder.select(upper, high, low), byte_offset(builder, y, start), mask, 1)

    groups = builder.sdiv(count, I64(_REGISTER))
    done = builder.mul(groups, I64(_REGISTER))

    def whole(values: list[Any]) -> list[Any]:
        loop = CountedLoop(builder, groups, [])
        replace(builder.mul(loop.index, I64(_REGISTER)), None)
        loop.end([])
        return values

    def rest(values: list[Any]) -> list[Any]:
        replace(done, first_lanes(builder, builder.sub(count, done), _REGISTER))
        return values

    conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
    conditional(builder, builder.icmp_signed("<", done, count), [], rest)


def _one_by_one(builder: Any, arguments: list[Any]) -> None:
    """``run(x, y, table, count)``."""
    x, y, table, count = arguments

    def replace(start: Any, bytes_: int) -> None:
        keys = [load_at(builder, byte_offset(builder, x, builder.add(start, I64(i))), I8, 1) for i in range(bytes_)]
        values = [load_at(builder, byte_offset(builder, table, builder.zext(key, I64)), I8, 1) for key in keys]
        for i, value in enumerate(values):
            store_at(builder, value, byte_offset(builder, y, builder.add(start, I64(i))), 1)

    groups = builder.sdiv(count, I64(_AT_ONCE))
    done = builder.mul(groups, I64(_AT_ONCE))

    def whole(values: list[Any]) -> list[Any]:
        loop = CountedLoop(builder, groups, [])
        replace(builder.mul(loop.index, I64(_AT_ONCE)), _AT_ONCE)
        loop.end([])
        return values

    def rest(values: list[Any]) -> list[Any]:
        loop = CountedLoop(builder, builder.sub(count, done), [])
        replace(builder.add(done, loop.index), 1)
        loop.end([])
        return values

    conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
    conditional(builder, builder.icmp_signed("<", done, count), [], rest)
