"""A dense tensor of 16-bit floats to float32, or back.

Words: 0 elements, 1 x, 2 y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_lanes, micro_kernel, store_lanes
from softneuro.codegen.half import narrowed_value, widened_value
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes

__all__ = ["make"]


def make(target: Target, found: str, wanted: str) -> Callable[[int, int, int], None]:
    """The kernel that converts ``found`` to ``wanted``: ``f16`` or ``bf16`` to ``f32``, or ``f32`` to one of them."""
    convert = _convert(target, found, wanted)
    lanes = target.f32_lanes
    read, written = (4, 2) if found == "f32" else (2, 4)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        elements = load_i64(args, 0)
        vectors = (elements + lanes - 1) // lanes
        first = vectors * tid // nthreads * lanes
        end = min(vectors * (tid + 1) // nthreads * lanes, elements)
        if first < end:
            convert(load_i64(args, 1) + first * read, load_i64(args, 2) + first * written, end - first)

    return kernel


def _convert(target: Target, found: str, wanted: str) -> Any:
    """The intrinsic ``convert(x, y, count)``: whole vectors, then a masked one."""
    lanes = target.f32_lanes
    half = ir.IntType(16)
    kind = ir.VectorType(F32 if found == "f32" else half, lanes)

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, count = arguments
        sizes = (I64(4), I64(2)) if found == "f32" else (I64(2), I64(4))

        def vector(start: Any, mask: Any) -> None:
            place = byte_offset(builder, x, builder.mul(start, sizes[0]))
            value = load_lanes(builder, place, kind, mask, 1)
            if found == "f32":
                value = narrowed_value(builder, target, value, wanted)
            else:
                value = widened_value(builder, target, value, found)
            store_lanes(builder, value, byte_offset(builder, y, builder.mul(start, sizes[1])), mask, 1)

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

    return micro_kernel("convert_half", 3, body)
