"""A few rows times a constant matrix packed in panels of columns, at the speed of memory.

Words: 0 a, 1 y, 2 panels of b, 3 panels of bias, 4 residual, 5 k, 6 n, 7 steps of a row of a (see `Operands`).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64
from softneuro.codegen.operands import Operands
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target
from softneuro.codegen.vector_tile import vector_tile

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, streams: int, ahead: int, epilogue: str, found: str = "f32",
         weights: str = "f32", kept: str = "f32", odd: bool = False) -> Callable[[int, int, int], None]:
    """The kernel for exactly ``mr`` rows, reading ``streams`` panels of ``nv`` vectors at a time; found, weights: what a and
    b are (see `Operands`)."""
    operands = Operands(target, found, weights)
    tile = vector_tile(target, mr, nv, streams, ahead, epilogue, operands, kept, odd)
    width = nv * target.f32_lanes
    found_bytes, kept_bytes = STORED_BYTES[found], STORED_BYTES[kept]
    weight_bytes = operands.weight_bytes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        residual, k, n, steps = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        panels = (n + width - 1) // width
        panel_bytes = steps * width * weight_bytes
        last = panels * (tid + 1) // nthreads
        for panel in range(panels * tid // nthreads, last, streams):
            place = panel * width * kept_bytes
            count = min(streams, last - panel)
            tile(steps, a, k * found_bytes, b + panel * panel_bytes, count, panel_bytes, bias + panel * width * 4, y + place,
                 n * kept_bytes, residual + place, min(count * width, n - panel * width))

    return kernel
