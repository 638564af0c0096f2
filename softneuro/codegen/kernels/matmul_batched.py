"""Matrix product of two operands computed at run time: each thread packs a panel of b and multiplies it by all rows.

Words: 0 a, 1 y, 2 b, 3 bias (n floats, or 0 for none), 4 row offsets (int32 [full, last tile][mr]), 5 batches (int64
[batch][bytes into a, bytes into b]), 6 residual, 7 number of batches, 8 m, 9 k, 10 n, 11 bytes of a row of a,
12 scratch, 13 threads that have scratch, 14 bytes of scratch each: a panel (k by width) and a width of bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import register_jitable

from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_f32, load_i64, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import transpose_strip
from softneuro.codegen.vector import vectors

__all__ = ["make"]

Pack = Any  # an intrinsic or a compiled function: numba is not typed
"""pack(b, first, n, k, columns, packed): columns from ``first`` of the matrix at b to rows of a panel."""


def _pack_rows(target: Target, nv: int) -> Pack:
    """Packing of a b that is (k, n): pieces of its rows."""
    f32 = vectors(target)
    load, load_n, store, lanes = f32.load, f32.load_n, f32.store, f32.lanes

    @register_jitable
    def pack(b: int, first: int, n: int, k: int, columns: int, packed: int) -> None:
        for i in range(k):
            source, place = b + (i * n + first) * 4, packed + i * nv * lanes * 4
            for j in range(0, columns, lanes):
                if columns - j >= lanes:
                    store(place + j * 4, load(source + j * 4))
                else:
                    store(place + j * 4, load_n(source + j * 4, columns - j))

    return pack


def _pack_transposed(target: Target, nv: int) -> Pack:
    """Packing of a b that is (n, k): transposes, the last of which overlap those before them."""
    lanes = target.f32_lanes
    row_bytes = nv * lanes * 4
    strip = transpose_strip(target, 4, lanes)

    @register_jitable
    def pack(b: int, first: int, n: int, k: int, columns: int, packed: int) -> None:
        source = b + first * k * 4
        if columns >= lanes and k >= lanes:
            for i in range(0, k, lanes):
                row = min(i, k - lanes)
                strip(source + row * 4, k * 4, packed + row * row_bytes, row_bytes, columns)
        else:
            for j in range(columns):
                for i in range(k):
                    store_f32(packed + i * row_bytes, j, load_f32(source + j * k * 4, i))

    return pack


def make(target: Target, mr: int, nv: int, transpose: bool, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` rows by ``nv`` vectors of columns; with ``transpose``, b is (n, k).

    Threads split (batch, panel, row tile); a thread packs a panel when it comes to it, so that the packed panel is
    still in its own cache when it is used.
    """
    tile = gemm_tile(target, mr, nv, epilogue)
    pack = _pack_transposed(target, nv) if transpose else _pack_rows(target, nv)
    f32 = vectors(target)
    load_n, store, splat, lanes = f32.load_n, f32.store, f32.splat, f32.lanes
    width = nv * lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, b, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, batches, residual, count = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        m, k, n, a_row = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        workers = min(nthreads, load_i64(args, 13))
        packed = load_i64(args, 12) + tid * load_i64(args, 14)
        packed_bias = packed + k * width * 4
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
                if columns < width:
                    for i in range(k * nv):
                        store(packed + i * lanes * 4, splat(0.0))
                pack(b + load_i64(batches, 2 * batch + 1), first, n, k, columns, packed)
                for j in range(0, width, lanes):
                    part = max(columns - j, 0) if bias else 0
                    store(packed_bias + j * 4, load_n(bias + (first + j) * 4, part))
            place = ((batch * m + index * mr) * n + first) * 4
            table = offsets + mr * 4 if index == tiles - 1 else offsets
            tile(1, k, a + load_i64(batches, 2 * batch) + index * mr * a_row, a, table, packed, packed, packed_bias,
                 y + place, n * 4, residual + place, min(mr, m - index * mr), columns, 0)

    return kernel
