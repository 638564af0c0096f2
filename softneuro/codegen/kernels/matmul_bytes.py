"""Matrix product of bytes with a constant right side packed in panels of columns.

Words: 0 a, 1 y, 2 panels of b, 3 columns, 4 row offsets (int32 [full, last tile][mr]), 5 batches (int64 [batch][bytes into a,
which matrix of b]), 6 residual, 7 numbers, 8 number of batches, 9 m, 10 steps, 11 where the last step of a row begins, 12 n,
13 bytes of a row of a. panels, columns, numbers: see `byte_panels`.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.byte_panels import COLUMN_NUMBERS, step_bytes
from softneuro.codegen.byte_tile import byte_tile
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.integer_forms import integer_form
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str, kept: str, rest: int, ahead: int) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` rows by ``nv`` vectors of columns; kept, rest and ahead as in `byte_tile`.

    Panels are outside of row tiles, so that each is read once from memory; without ``ahead`` the next one is prefetched
    meanwhile, spread over the first row tiles.
    """
    tile = byte_tile(target, mr, nv, epilogue, kept, rest, ahead)
    width, size = nv * target.f32_lanes, STORED_BYTES[kept]
    line_bytes = width * step_bytes(integer_form(target))

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, columns = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, batches, residual, numbers = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        count, m, steps, last = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        n, a_row = load_i64(args, 12), load_i64(args, 13)
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        panel_bytes = steps * line_bytes
        units = count * panels * tiles
        begin, end = units * tid // nthreads, units * (tid + 1) // nthreads
        batch = begin // (panels * tiles)
        panel = begin // tiles - batch * panels
        index = begin % tiles
        for _ in range(begin, end):
            matrix = load_i64(batches, 2 * batch + 1) * panels
            following = b + (matrix + min(panel + 1, panels - 1)) * panel_bytes
            if index * CACHE_LINE < line_bytes:
                following += index * steps * CACHE_LINE
            place = ((batch * m + index * mr) * n + panel * width) * size
            table = offsets + mr * 4 if index == tiles - 1 else offsets
            tile(1, steps, last, a + load_i64(batches, 2 * batch) + index * mr * a_row, a, table,
                 b + (matrix + panel) * panel_bytes, following, columns + (matrix + panel) * COLUMN_NUMBERS * width * 4,
                 y + place, n * size, residual + place, min(mr, m - index * mr), min(width, n - panel * width), numbers)
            index += 1
            if index == tiles:
                index = 0
                panel += 1
                if panel == panels:
                    panel = 0
                    batch += 1

    return kernel
