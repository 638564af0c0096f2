"""Vectors of bytes taken apart into 32-bit lanes and put together again, and products of 8-bit integers in such lanes.

A vector of bytes becomes four vectors of 32-bit lanes in the order in which the unpacking instructions of x86 leave them:
lane 4 * p + e of vector j is byte 16 * p + 4 * j + e. `packed_bytes` and `in_memory_order` undo that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import constant, minimum_value
from softneuro.codegen.emit import I8
from softneuro.codegen.integer_products import add_dots, add_pairs
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, call_intrinsic, splat_value

__all__ = ["add_byte_products", "in_memory_order", "interleaved_rows", "packed_bytes", "unpacked_bytes", "within_words"]

_I16 = ir.IntType(16)
_PART = 16  # bytes within which instructions unpack
_PACKED_WORDS = {128: "llvm.x86.sse2.packssdw.128", 256: "llvm.x86.avx2.packssdw", 512: "llvm.x86.avx512.packssdw.512"}
_PACKED_BYTES = {128: "llvm.x86.sse2.packuswb.128", 256: "llvm.x86.avx2.packuswb", 512: "llvm.x86.avx512.packuswb.512"}
_NEAREST = {128: "llvm.x86.sse2.cvtps2dq", 256: "llvm.x86.avx.cvt.ps2dq.256"}
_FARTHEST = 2.0**30


def _has_x86(target: Target) -> bool:
    return target.triple.startswith("x86_64")


def _as(builder: Any, value: Any, element: ir.Type, width: int) -> Any:
    """The bits of a vector value as elements of ``width`` bits."""
    bits = value.type.count * value.type.element.width
    return builder.bitcast(value, ir.VectorType(element, bits // width))


def _unpacked(builder: Any, a: Any, b: Any, width: int) -> list[Any]:
    """Elements of ``width`` bits of a and b in turns, from the lower and from the upper half of every 16 bytes, as bytes."""
    kind = ir.IntType(width)
    a, b = _as(builder, a, kind, width), _as(builder, b, kind, width)
    count, each = a.type.count, 8 * _PART // width
    found = []
    for half in (0, each // 2):
        chosen = [place for part in range(0, count, each) for e in range(each // 2)
                  for place in (part + half + e, count + part + half + e)]
        shuffled = builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, count), chosen))
        found.append(_as(builder, shuffled, I8, 8))
    return found


def interleaved_rows(builder: Any, rows: Sequence[Any], size: int) -> list[Any]:
    """Four vectors of 32-bit lanes that each hold one byte of every row: size 4 as bytes, size 2 as 16-bit integers.

    rows: vectors of bytes, at most ``size``; where there are fewer, the lanes hold something else there.
    """
    filled = [*rows, *[rows[0]] * (size - len(rows))]
    halves = _unpacked(builder, filled[0], filled[1], 8)
    if size == 4:
        others = _unpacked(builder, filled[2], filled[3], 8)
        pairs = [_unpacked(builder, a, b, 16) for a, b in zip(halves, others, strict=True)]
    else:
        pairs = [_unpacked(builder, half, constant(half, 0), 8) for half in halves]
    return [_as(builder, value, I32, 32) for pair in pairs for value in pair]


def unpacked_bytes(builder: Any, value: Any) -> list[Any]:
    """Four vectors of int32 of a vector of unsigned bytes."""
    zero = constant(value, 0)
    return [_as(builder, words, I32, 32) for half in _unpacked(builder, value, zero, 8)
            for words in _unpacked(builder, half, constant(half, 0), 16)]


def add_byte_products(builder: Any, target: Target, total: Any, rows: Any, weights: Any, size: int) -> Any:
    """``total`` and in each 32-bit lane the products of ``size`` values of rows (unsigned bytes) and weights (signed).

    size 4: bytes, for targets with vpdpbusd at this width; 2: 16-bit integers, exact too.
    """
    if size == 4:
        return add_dots(builder, total, rows, weights)
    if _has_x86(target):
        return add_pairs(builder, total, rows, weights)
    half = constant(rows, 16)
    lower = [builder.ashr(builder.shl(value, half), half) for value in (rows, weights)]
    upper = [builder.ashr(value, half) for value in (rows, weights)]
    return builder.add(builder.add(total, builder.mul(*lower)), builder.mul(*upper))


def in_memory_order(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """Up to four vectors of 32-bit lanes, dealt by fours, in the order of the bytes that they come from."""
    count, lanes = len(vectors), vectors[0].type.count
    if count == 1:
        return list(vectors)
    both = ir.Constant(ir.VectorType(I32, 2 * lanes), list(range(2 * lanes)))
    filled = [vectors[min(i, count - 1)] for i in range(4)]
    halves = [builder.shuffle_vector(*filled[i : i + 2], both) for i in (0, 2)]
    places = [j * lanes + 4 * part + e for part in range(lanes // 4) for j in range(count) for e in range(4)]
    return [builder.shuffle_vector(*halves, ir.Constant(ir.VectorType(I32, lanes), places[k * lanes : (k + 1) * lanes]))
            for k in range(count)]


def _nearest(builder: Any, target: Target, value: Any) -> Any:
    """int32 nearest to floats, ties to even; the least one for NaN and what is below all."""
    words = ir.VectorType(I32, value.type.count)
    if not _has_x86(target):
        lanes = value.type.count
        rounded = call_intrinsic(builder, f"llvm.roundeven.v{lanes}f32", value.type, [value])
        return call_intrinsic(builder, f"llvm.fptosi.sat.v{lanes}i32.v{lanes}f32", words, [rounded])
    if value.type.count == 16:
        arguments = [value, ir.Constant(words, [0] * words.count), ir.Constant(_I16, -1), I32(4)]
        return call_intrinsic(builder, "llvm.x86.avx512.mask.cvtps2dq.512", words, arguments)
    return call_intrinsic(builder, _NEAREST[32 * value.type.count], words, [value])


def within_words(builder: Any, steps: Any) -> Any:
    """Steps without those too large for 32 bits, which are made smaller; NaN stays."""
    return minimum_value(builder, constant(steps, _FARTHEST), steps)


def packed_bytes(builder: Any, target: Target, steps: Sequence[Any], zero: Any) -> Any:
    """The vector of bytes nearest to four float32 vectors of steps (ties to even) plus the zero point (int32 scalar).

    NaN and steps below -2**31 give 0; steps must not reach 2**31, see `within_words`.
    """
    words = [_nearest(builder, target, v) for v in steps]
    lanes = steps[0].type.count
    bits = 32 * lanes
    if not _has_x86(target):
        return _packed_anywhere(builder, words, zero)
    pairs, nbytes = ir.VectorType(_I16, 2 * lanes), ir.VectorType(I8, 4 * lanes)
    moved = splat_value(builder, builder.trunc(zero, _I16), 2 * lanes)
    halves = [call_intrinsic(builder, f"llvm.sadd.sat.v{2 * lanes}i16", pairs,
                             [call_intrinsic(builder, _PACKED_WORDS[bits], pairs, list(two)), moved])
              for two in (words[:2], words[2:])]
    return call_intrinsic(builder, _PACKED_BYTES[bits], nbytes, halves)


def _packed_anywhere(builder: Any, words: Sequence[Any], zero: Any) -> Any:
    lanes = words[0].type.count
    offset = splat_value(builder, zero, lanes)
    narrow = []
    for value in words:
        moved = builder.add(value, offset)
        low = builder.select(builder.icmp_signed("<", moved, constant(moved, 0)), constant(moved, 0), moved)
        high = builder.select(builder.icmp_signed(">", low, constant(low, 255)), constant(low, 255), low)
        narrow.append(high)
    ordered = [builder.trunc(value, ir.VectorType(I8, lanes)) for value in in_memory_order(builder, narrow)]
    halves = [builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, 2 * lanes), list(range(2 * lanes))))
              for a, b in (ordered[:2], ordered[2:])]
    return builder.shuffle_vector(*halves, ir.Constant(ir.VectorType(I32, 4 * lanes), list(range(4 * lanes))))
