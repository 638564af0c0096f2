"""Matrix product of two operands computed at run time: each thread packs a panel of b and multiplies it by all rows.

Words: 0 a, 1 y, 2 b, 3 bias (n floats, or 0 for none), 4 row offsets (int32 [full, last tile][mr]), 5 batches (int64
[batch][bytes into a, bytes into b]), 6 residual, 7 number of batches, 8 m, 9 k, 10 n, 11 bytes of a row of a,
12 scratch, 13 threads that have scratch, 14 bytes of scratch each: a panel (k by width) and a width of bias.
"""

from __future__ import annotations

from collections.abc import Callable

from numba.extending import register_jitable

from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_f32, load_i64, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import transpose_strip
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, transpose: bool, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` rows by ``nv`` vectors of columns; with ``transpose``, b is (n, k).

    Threads split (batch, panel, row tile); a thread packs a panel when it comes to it, so that the packed panel is
    still in its own cache when it is used.
    """
    tile = gemm_tile(target, mr, nv, epilogue)
    f32 = vectors(target)
    load, load_n, store, splat, lanes = f32.load, f32.load_n, f32.store, f32.splat, f32.lanes
    strip = transpose_strip(target, 4, lanes)
    width = nv * lanes
    row_bytes = width * 4

    @register_jitable
    def pack_columns(source: int, n: int, k: int, columns: int, packed: int) -> None:
        """Rows of b, of which ``columns`` elements belong to the panel."""
        for i in range(k):
            for j in range(0, columns, lanes):
                place = packed + i * row_bytes + j * 4
                if columns - j >= lanes:
                    store(place, load(source + (i * n + j) * 4))
                else:
                    store(place, load_n(source + (i * n + j) * 4, columns - j))

    @register_jitable
    def pack_transposed(source: int, k: int, columns: int, packed: int) -> None:
        """``columns`` rows of the transposed b; squares at the ends overlap those before them."""
        if columns >= lanes and k >= lanes:
            for i in range(0, k, lanes):
                row = min(i, k - lanes)
                strip(source + row * 4, k * 4, packed + row * row_bytes, row_bytes, columns)
        else:
            for j in range(columns):
                for i in range(k):
                    store_f32(packed + i * row_bytes, j, load_f32(source + j * k * 4, i))

    @register_jitable
    def pack_bias(source: int, columns: int, packed: int) -> None:
        for j in range(0, width, lanes):
            store(packed + j * 4, load_n(source + j * 4, max(columns - j, 0)) if source else splat(0.0))

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, batches, residual, count = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        m, k, n, a_row = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        workers = min(nthreads, load_i64(args, 13))
        packed = load_i64(args, 12) + tid * load_i64(args, 14)
        packed_bias = packed + k * row_bytes
        if tid >= workers:
            return
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        units = count * panels * tiles
        ready = -1
        for unit in range(units * tid // workers, units * (tid + 1) // workers):
            line = unit // tiles
            index = unit - line * tiles
            batch = line // panels
            first = (line - batch * panels) * width
            columns = min(width, n - first)
            if line != ready:
                ready = line
                source = b + load_i64(batches, 2 * batch + 1)
                if columns < width:
                    for i in range(k * nv):
                        store(packed + i * lanes * 4, splat(0.0))
                if transpose:
                    pack_transposed(source + first * k * 4, k, columns, packed)
                else:
                    pack_columns(source + first * 4, n, k, columns, packed)
                pack_bias(bias + first * 4 if bias else 0, columns, packed_bias)
            place = ((batch * m + index * mr) * n + first) * 4
            table = offsets + mr * 4 if index == tiles - 1 else offsets
            tile(1, k, a + load_i64(batches, 2 * batch) + index * mr * a_row, a, table, packed, packed, packed_bias,
                 y + place, n * 4, residual + place, min(mr, m - index * mr), columns)

    return kernel
