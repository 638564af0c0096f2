"""The k first elements of parts of lines, each part's in a sorted list.

Words: 0 x, 1 keys and 2 positions (int64 [line][part][k] each), 3 lines, 4 parts, 5 elements of a line, 6 k, 7 inner
lines (that lie side by side), 8 bytes of an element, 9 the keys' mask: 0 for the largest elements, -1 for the smallest.

A list is first a heap with its last element (smallest key, of equal ones the highest position) on top, which an
element that comes before it replaces; then it is sorted in place. Elements are met in the order of their positions,
so an equal key never comes before one in the heap. Where elements of four bytes are neighbours, vectors that hold no
larger key than the heap's last are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.emit import I64, byte_offset, load_at
from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.scalars import FLOAT_INFINITIES, order_key
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, build_intrinsic, splat_value

__all__ = ["make"]

_VECTORS = 4


@register_jitable
def _sift(keys: int, positions: int, root: int, count: int, key: int, position: int) -> None:
    """Let (key, position) sink from the free place ``root`` of a heap of ``count`` elements."""
    child = 2 * root + 1
    while child < count:
        last, where = load_i64(keys, child), load_i64(positions, child)
        if child + 1 < count:
            other, there = load_i64(keys, child + 1), load_i64(positions, child + 1)
            if other < last or (other == last and there > where):
                child, last, where = child + 1, other, there
        if key < last or (key == last and position > where):
            break
        store_i64(keys, root, last)
        store_i64(positions, root, where)
        root = child
        child = 2 * root + 1
    store_i64(keys, root, key)
    store_i64(positions, root, position)


def _any_above(target: Target, dtype: str) -> Any:
    """The intrinsic ``any_above(address, last, mask) -> int64``: 0 only if no key of the elements in `_VECTORS` vectors
    at the address is above ``last``. NaN and zeros may be reported in vain."""
    lanes = target.f32_lanes
    vector = ir.VectorType(I32, lanes)
    most = (1 << 31) - 1
    infinity = FLOAT_INFINITIES.get(dtype)

    def constant(value: int) -> Any:
        return ir.Constant(vector, [value] * lanes)

    def generate(builder: Any, args: list[Any]) -> Any:
        last, mask = (splat_value(builder, builder.trunc(value, I32), lanes) for value in args[1:])
        found = ir.Constant(ir.VectorType(ir.IntType(1), lanes), None)
        for i in range(_VECTORS):
            bits = key = load_at(builder, byte_offset(builder, args[0], i * lanes * 4), vector)
            if infinity is not None:
                key = builder.xor(bits, builder.and_(builder.ashr(bits, constant(31)), constant(most)))
                is_nan = builder.icmp_signed(">", builder.and_(bits, constant(most)), constant(infinity))
                found = builder.or_(found, is_nan)
            found = builder.or_(found, builder.icmp_signed(">", builder.xor(key, mask), last))
        mask_type = ir.IntType(lanes)
        return builder.zext(builder.icmp_unsigned("!=", builder.bitcast(found, mask_type), mask_type(0)), I64)

    return build_intrinsic(types.int64, [types.int64] * 3, generate)


def make(target: Target, dtype: str) -> Callable[[int, int, int], None]:
    """Threads share the parts of all lines."""
    key_at, any_above = order_key(dtype), _any_above(target, dtype)
    skips = dtype in ("f32", "i32")
    block = _VECTORS * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, all_keys, all_positions = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        lines, parts, length, k = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        inner, size, mask = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9)
        step = inner * size
        for unit in range(lines * parts * tid // nthreads, lines * parts * (tid + 1) // nthreads):
            line = unit // parts
            part = unit - line * parts
            outer = line // inner
            base = x + outer * length * step + (line - outer * inner) * size
            keys, positions = all_keys + unit * k * 8, all_positions + unit * k * 8
            first, end = length * part // parts, length * (part + 1) // parts
            count = min(k, end - first)
            for i in range(count):
                store_i64(keys, i, key_at(base + (first + i) * step) ^ mask)
                store_i64(positions, i, first + i)
            for i in range(count // 2):
                root = count // 2 - 1 - i
                _sift(keys, positions, root, count, load_i64(keys, root), load_i64(positions, root))
            last = load_i64(keys, 0)
            i = first + count
            while i < end:
                stop = min(i + block, end)
                if not skips or inner > 1 or stop - i < block or any_above(base + i * size, last, mask):
                    for j in range(i, stop):
                        key = key_at(base + j * step) ^ mask
                        if key > last:
                            _sift(keys, positions, 0, count, key, j)
                            last = load_i64(keys, 0)
                i = stop
            for i in range(count - 1):
                end_place = count - 1 - i
                key, position = load_i64(keys, end_place), load_i64(positions, end_place)
                store_i64(keys, end_place, load_i64(keys, 0))
                store_i64(positions, end_place, load_i64(positions, 0))
                _sift(keys, positions, 0, end_place, key, position)

    return kernel
