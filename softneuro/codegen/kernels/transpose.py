"""Transpose matrices inside tensors of any rank: one axis is contiguous in the source, another in the destination.

Words: 0 source, 1 destination, 2 axis table, 3 axes in it, 4 loops over them, 5 rows (contiguous in the source),
6 columns (contiguous in the destination), 7 source bytes from column to column, 8 destination bytes from row to
row, 9 columns that one unit of work takes (all of them when they are fewer than the largest square has).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import largest_tile, transpose_strips

__all__ = ["make"]


def make(target: Target, size: int) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes, in the largest squares that fit into rows and columns.

    Threads share strips of such squares; the last strip and the last unit overlap the ones before them.
    """
    transpose, largest = transpose_strips(target, size), largest_tile(target, size)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, table, axes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        loops, rows, columns = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        source_step, destination_step, width = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9)
        tile = largest
        while tile > min(rows, columns):
            tile //= 2
        strips = (rows + tile - 1) // tile
        parts = (columns + width - 1) // width
        units = loops * strips * parts
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            loop = unit // (strips * parts)
            rest = unit - loop * strips * parts
            strip = rest // parts
            row = min(strip * tile, rows - tile)
            column = min((rest - strip * parts) * width, columns - width)
            from_, to = axis_offsets(table, axes, loop)
            transpose(tile, source + from_ + column * source_step + row * size, source_step,
                      destination + to + row * destination_step + column * size, destination_step, width)

    return kernel
