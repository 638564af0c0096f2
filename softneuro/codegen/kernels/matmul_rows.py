"""Matrices copied with padded rows, or transposed, so that a tile reads each row along its length.

Words: 0 source, 1 destination, 2 matrices, 3 rows, 4 columns, 5 bytes of a destination row; rows and columns are the
destination's. Destination rows hold whole vectors; elements past the columns are zeros or left as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_f32, load_i64, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import transpose_strip
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target, transpose: bool) -> Callable[[int, int, int], None]:
    """The kernel that copies, or with ``transpose`` turns (columns, rows) into (rows, columns)."""
    f32 = vectors(target)
    load, store, load_n, lanes = f32.load, f32.store, f32.load_n, f32.lanes
    strip = transpose_strip(target, 4, lanes)

    def copy(args: int, tid: int, nthreads: int) -> None:
        x, y, matrices, rows = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        columns, y_row = load_i64(args, 4), load_i64(args, 5)
        rows *= matrices
        whole = columns - columns % lanes
        for row in range(rows * tid // nthreads, rows * (tid + 1) // nthreads):
            for column in range(0, whole, lanes):
                store(y + row * y_row + column * 4, load(x + (row * columns + column) * 4))
            if whole < columns:
                store(y + row * y_row + whole * 4, load_n(x + (row * columns + whole) * 4, columns - whole))

    def turn(args: int, tid: int, nthreads: int) -> None:
        x, y, matrices, rows = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        columns, y_row = load_i64(args, 4), load_i64(args, 5)
        strips = (rows + lanes - 1) // lanes
        units = matrices * strips
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            matrix = unit // strips
            row = (unit - matrix * strips) * lanes
            height = min(lanes, rows - row)
            source = x + (matrix * rows * columns + row) * 4
            place = y + (matrix * rows + row) * y_row
            if height == lanes and columns >= lanes:
                strip(source, rows * 4, place, y_row, columns)
            else:
                for i in range(height):
                    for column in range(columns):
                        store_f32(place + i * y_row, column, load_f32(source + column * rows * 4, i))

    return turn if transpose else copy
