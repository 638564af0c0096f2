"""Product of 8-bit integers in int32: rows made ready by `integer_rows` times panels of columns.

Words: 0 rows, 1 y, 2 panels, 3 sides (int32 [matrix of b][2][columns of the panels]: sums of the columns, zero points left
in them), 4 row offsets (int32 [full, last tile][mr]), 5 batches (int64 [batch][2]: which matrix of a, which of b), 6 terms
(int32 [row of a][2], or 0 for none), 7 where an int64 says whether there are terms, 8 zero point of a (a byte, or 0 for
none), 9 number of batches, 10 m, 11 steps, 12 n, 13 bytes of a row.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.integer_forms import FORMS
from softneuro.codegen.integer_tile import integer_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.scalars import integer_access
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, form: str, mr: int, nv: int, signed: bool) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` rows by ``nv`` vectors of columns.

    signed: the bytes of a were signed and are 128 larger in the rows, so its zero point is, too. The next panel is
    prefetched meanwhile, spread over the first row tiles.
    """
    chosen = FORMS[form]
    tile = integer_tile(target, chosen, mr, nv)
    load_zero, _ = integer_access("i8" if signed else "u8")
    shift = 128 if signed else 0
    width = nv * target.f32_lanes
    line_bytes = width * chosen.step_bytes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, sides = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, batches, terms, needed = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        zero, count, m, steps = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        n, a_row = load_i64(args, 12), load_i64(args, 13)
        corrected = terms != 0 and load_i64(needed, 0) != 0
        factor = -shift
        if zero != 0:
            factor -= load_zero(zero)
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        panel_bytes = steps * line_bytes
        side_bytes = panels * width * 4
        units = count * panels * tiles
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            batch = unit // (panels * tiles)
            rest = unit - batch * panels * tiles
            panel = rest // tiles
            index = rest - panel * tiles
            row, matrix = load_i64(batches, 2 * batch) * m + index * mr, load_i64(batches, 2 * batch + 1)
            first = b + matrix * panels * panel_bytes
            weights = first + panel * panel_bytes
            following = first + min(panel + 1, panels - 1) * panel_bytes
            if index * CACHE_LINE < line_bytes:
                following += index * steps * CACHE_LINE
            side = sides + matrix * 2 * side_bytes + panel * width * 4
            table = offsets + mr * 4 if index == tiles - 1 else offsets
            tile(1, steps, a + row * a_row, a, table, weights, following, side, side + side_bytes, factor,
                 terms + row * 8 if corrected else 0, y + ((batch * m + index * mr) * n + panel * width) * 4, n * 4,
                 min(mr, m - index * mr), min(width, n - panel * width))

    return kernel
