"""A dense tensor of floats from one data type to another, by way of float32.

Words: 0 elements, 1 x, 2 y, 3 scale and zero point of x, 4 those of y (two float32 each, read for qint8 only).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, micro_kernel
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES, load_stored, quantisation_numbers, store_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import first_lanes

__all__ = ["make"]


def make(target: Target, found: str, wanted: str) -> Callable[[int, int, int], None]:
    """The kernel that converts ``found`` to ``wanted``, each ``f32``, ``f16``, ``bf16`` or ``qint8``."""
    convert = _convert(target, found, wanted)
    lanes = target.f32_lanes
    read, written = STORED_BYTES[found], STORED_BYTES[wanted]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        elements = load_i64(args, 0)
        vectors = (elements + lanes - 1) // lanes
        first = vectors * tid // nthreads * lanes
        end = min(vectors * (tid + 1) // nthreads * lanes, elements)
        if first < end:
            convert(load_i64(args, 1) + first * read, load_i64(args, 2) + first * written, end - first,
                    load_i64(args, 3), load_i64(args, 4))

    return kernel


def _convert(target: Target, found: str, wanted: str) -> Any:
    """The intrinsic ``convert(x, y, count, x_numbers, y_numbers)``: whole vectors, then a masked one."""
    lanes = target.f32_lanes
    sizes = I64(STORED_BYTES[found]), I64(STORED_BYTES[wanted])

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, count = arguments[:3]
        numbers = [quantisation_numbers(builder, byte_offset(builder, address, 0), lanes) if dtype == "qint8" else None
                   for address, dtype in zip(arguments[3:], (found, wanted), strict=True)]

        def vector(start: Any, mask: Any) -> None:
            place = byte_offset(builder, x, builder.mul(start, sizes[0]))
            value = load_stored(builder, target, place, found, lanes, mask, numbers[0])
            place = byte_offset(builder, y, builder.mul(start, sizes[1]))
            store_stored(builder, target, value, place, wanted, mask, numbers[1])

        groups = builder.ashr(count, I64(lanes.bit_length() - 1))
        done = builder.mul(groups, I64(lanes))

        def whole(values: list[Any]) -> list[Any]:
            loop = CountedLoop(builder, groups, [])
            vector(builder.mul(loop.index, I64(lanes)), None)
            loop.end([])
            return values

        def rest(values: list[Any]) -> list[Any]:
            vector(done, first_lanes(builder, builder.sub(count, done), lanes))
            return values

        conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
        conditional(builder, builder.icmp_signed("<", done, count), [], rest)

    return micro_kernel("convert", 5, body)
