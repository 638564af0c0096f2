"""A few rows times a constant matrix packed in panels of columns, at the speed of memory.

Words: 0 a, 1 y, 2 panels of b, 3 panels of bias, 4 residual, 5 k, 6 n.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector_tile import vector_tile

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, streams: int, ahead: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for exactly ``mr`` rows, reading ``streams`` panels of ``nv`` vectors at a time."""
    tile = vector_tile(target, mr, nv, streams, ahead, epilogue)
    width = nv * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        residual, k, n = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        panels = (n + width - 1) // width
        panel_bytes = k * width * 4
        last = panels * (tid + 1) // nthreads
        for panel in range(panels * tid // nthreads, last, streams):
            place = panel * width * 4
            count = min(streams, last - panel)
            tile(k, a, k * 4, b + panel * panel_bytes, count, panel_bytes, bias + place, y + place, n * 4,
                 residual + place, min(count * width, n - panel * width))

    return kernel
