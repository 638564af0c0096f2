"""Matrix product with a constant right side packed in panels of columns.

Words: 0 a, 1 y, 2 panels of b, 3 panels of bias, 4 row offsets (int32 [full, last tile][mr]), 5 batches (int64
[batch][bytes into a, bytes into the panels]), 6 residual, 7 number of batches, 8 m, 9 steps of a row of a
(see `Operands`), 10 n, 11 bytes of a row of a.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.operands import Operands
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str, found: str = "f32", weights: str = "f32",
         kept: str = "f32", odd: bool = False) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` rows by ``nv`` vectors of columns.

    found, weights: what a and b are (see `Operands`). kept (no bytes), odd: as in `gemm_tile`.

    Panels are outside of row tiles, so that each is read once from memory; the next one is prefetched meanwhile,
    spread over the first row tiles.
    """
    operands = Operands(target, found, weights)
    tile = gemm_tile(target, mr, nv, epilogue, operands, kept, odd)
    width = nv * target.f32_lanes
    weight_bytes, kept_bytes = operands.weight_bytes, STORED_BYTES[kept]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, batches, residual, count = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        m, steps, n, a_row = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        panel_bytes = steps * width * weight_bytes
        units = count * panels * tiles
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            batch = unit // (panels * tiles)
            rest = unit - batch * panels * tiles
            panel = rest // tiles
            index = rest - panel * tiles
            first = b + load_i64(batches, 2 * batch + 1)
            following = first + min(panel + 1, panels - 1) * panel_bytes
            if index < nv:
                following += index * steps * 64
            rows = min(mr, m - index * mr)
            place = ((batch * m + index * mr) * n + panel * width) * kept_bytes
            table = offsets + mr * 4 if index == tiles - 1 else offsets
            tile(1, steps, a + load_i64(batches, 2 * batch) + index * mr * a_row, a, table, first + panel * panel_bytes,
                 following, bias + panel * width * 4, y + place, n * kept_bytes, residual + place, rows,
                 min(width, n - panel * width), 0)

    return kernel
