"""Planes woven into the rows and columns of larger planes: the phases of a transposed convolution put in place.

Words: 0 source, 1 destination, 2 planes, 3 rows in each, 4 columns.
source: float32 [plane][height factor][width factor][row][column]; destination: float32 [plane][row][height factor]
[column][width factor].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.emit import I64, byte_offset, load_lanes, store_lanes
from softneuro.codegen.memory import load_f32, load_i64, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, build_intrinsic, first_lanes

__all__ = ["make"]


def _weave(lanes: int) -> Any:
    """The intrinsic ``weave(destination, even, odd, count)``: the first ``count`` (1..lanes) of two rows in turn."""
    vector = ir.VectorType(F32, lanes)
    orders = [[half * lanes // 2 + i // 2 + i % 2 * lanes for i in range(lanes)] for half in range(2)]

    def generate(builder: Any, args: list[Any]) -> None:
        destination, even, odd, count = args
        mask = first_lanes(builder, count, lanes)
        rows = [load_lanes(builder, byte_offset(builder, address, 0), vector, mask) for address in (even, odd)]
        for half, order in enumerate(orders):
            woven = builder.shuffle_vector(*rows, ir.Constant(ir.VectorType(I32, lanes), order))
            kept = builder.sub(builder.shl(count, I64(1)), I64(half * lanes))
            store_lanes(builder, woven, byte_offset(builder, destination, half * 4 * lanes),
                        first_lanes(builder, kept, lanes))

    return build_intrinsic(types.void, [types.int64] * 4, generate)


def make(target: Target, height_factor: int, width_factor: int) -> Callable[[int, int, int], None]:
    """The kernel for given factors; threads share the rows of the destination."""
    lanes, weave = target.f32_lanes, _weave(target.f32_lanes)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, planes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        rows, columns = load_i64(args, 3), load_i64(args, 4)
        plane_bytes = rows * columns * 4
        units = planes * rows * height_factor
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            part = unit // height_factor
            plane = part // rows
            first = (plane * height_factor + unit - part * height_factor) * width_factor
            from_ = source + first * plane_bytes + (part - plane * rows) * columns * 4
            to = destination + unit * width_factor * columns * 4
            if width_factor == 2:
                for i in range(0, columns, lanes):
                    weave(to + 8 * i, from_ + 4 * i, from_ + plane_bytes + 4 * i, min(lanes, columns - i))
            else:
                for phase in range(width_factor):
                    for i in range(columns):
                        store_f32(to, i * width_factor + phase, load_f32(from_ + phase * plane_bytes, i))

    return kernel
