"""Bulk moves of bytes inside kernels: copy and fill of any length, and single elements of 1, 2, 4 or 8 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.elements import ELEMENT_SIZES
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import build_intrinsic, splat_value

__all__ = ["copy_bytes", "copy_unit", "element_access", "fill_bytes"]

_UNROLL = 4
Move = Callable[[Any, Any, int, int], None]
"""move(builder, byte offset, width in bytes, how many vectors of that width): loads first, then stores."""


def _bytes_type(width: int) -> ir.Type:
    return ir.VectorType(ir.IntType(64), width // 8) if width > 8 else ir.IntType(8 * width)


def _loop(builder: Any, count: Any, start: Any, step: int, body: Callable[[Any], None]) -> Any:
    """``count`` (0 or more) times body(offset), offsets from ``start`` in steps; returns the offset after the last."""
    entry = builder.block
    with builder.if_then(builder.icmp_signed(">", count, I64(0))):
        loop = CountedLoop(builder, count, [start])
        body(loop.carried[0])
        loop.end([builder.add(loop.carried[0], I64(step))])
        last, inside = loop.carried[0], builder.block
    end = builder.phi(I64)
    end.add_incoming(start, entry)
    end.add_incoming(last, inside)
    return end


def _cover(builder: Any, target: Target, length: Any, move: Move) -> None:
    """Move ``length`` bytes: whole vectors, the last one overlapping; short lengths as two overlapping halves."""
    width = target.vector_bits // 8
    done = builder.append_basic_block("done")
    with builder.if_then(builder.icmp_signed(">=", length, I64(width))):
        full = builder.sdiv(builder.sub(length, I64(1)), I64(width))
        blocks = builder.sdiv(full, I64(_UNROLL))
        offset = _loop(builder, blocks, I64(0), _UNROLL * width, lambda at: move(builder, at, width, _UNROLL))
        rest = builder.sub(full, builder.mul(blocks, I64(_UNROLL)))
        _loop(builder, rest, offset, width, lambda at: move(builder, at, width, 1))
        move(builder, builder.sub(length, I64(width)), width, 1)
        builder.branch(done)
    for half in _halves(width):
        with builder.if_then(builder.icmp_signed(">=", length, I64(half))):
            move(builder, I64(0), half, 1)
            move(builder, builder.sub(length, I64(half)), half, 1)
            builder.branch(done)
    builder.branch(done)
    builder.position_at_end(done)


def _halves(width: int) -> Iterator[int]:
    while width > 1:
        width //= 2
        yield width


def copy_bytes(target: Target) -> Any:
    """The intrinsic ``copy_bytes(destination, source, length)``: int64 addresses that do not overlap, any length."""

    def body(builder: Any, args: list[Any]) -> None:
        destination, source, length = args

        def move(builder: Any, offset: Any, width: int, count: int) -> None:
            places = [builder.add(offset, I64(i * width)) for i in range(count)]
            values = [load_at(builder, byte_offset(builder, source, at), _bytes_type(width), 1) for at in places]
            for at, value in zip(places, values, strict=True):
                store_at(builder, value, byte_offset(builder, destination, at), 1)

        _cover(builder, target, length, move)

    return micro_kernel("copy_bytes", 3, body)


def fill_bytes(target: Target) -> Any:
    """The intrinsic ``fill_bytes(destination, length, word)``: the element repeated in the int64 ``word`` (see
    `softneuro.codegen.elements.pattern_word`) as often as it fits; ``length`` is a multiple of the element's size."""

    def body(builder: Any, args: list[Any]) -> None:
        destination, length, word = args

        def move(builder: Any, offset: Any, width: int, count: int) -> None:
            kind = _bytes_type(width)
            value = splat_value(builder, word, width // 8) if width > 8 else word
            value = builder.trunc(word, kind) if width < 8 else value
            for i in range(count):
                store_at(builder, value, byte_offset(builder, destination, builder.add(offset, I64(i * width))), 1)

        _cover(builder, target, length, move)

    return micro_kernel("fill_bytes", 3, body)


def element_access(size: int) -> tuple[Any, Any]:
    """The intrinsics ``load(address) -> int64`` and ``store(address, value)`` for elements of ``size`` bytes."""
    kind = ir.IntType(8 * size)

    def load(builder: Any, args: list[Any]) -> Any:
        value = load_at(builder, byte_offset(builder, args[0], 0), kind, size)
        return builder.zext(value, I64) if size < 8 else value

    def store(builder: Any, args: list[Any]) -> None:
        value = builder.trunc(args[1], kind) if size < 8 else args[1]
        store_at(builder, value, byte_offset(builder, args[0], 0), size)

    return (build_intrinsic(types.int64, [types.int64], load),
            build_intrinsic(types.void, [types.int64, types.int64], store))


def copy_unit(target: Target) -> Any:
    """`copy_bytes` for any length, quickest for that of an element: for loops over units of one length."""
    copy = copy_bytes(target)
    (load_1, store_1), (load_2, store_2), (load_4, store_4), (load_8, store_8) = map(element_access, ELEMENT_SIZES)

    @register_jitable
    def move(destination: int, source: int, length: int) -> None:
        if length == 4:
            store_4(destination, load_4(source))
        elif length == 8:
            store_8(destination, load_8(source))
        elif length == 1:
            store_1(destination, load_1(source))
        elif length == 2:
            store_2(destination, load_2(source))
        else:
            copy(destination, source, length)

    return move
