"""Write single elements to places along one axis that an index tensor of the same rank picks.

Words: 0 destination (a copy of x already), 1 indices, 2 updates, 3 table of the axes outside the columns (see
`codegen.loops`: source strides count elements of the indices, destination strides are bytes), 4 axes in it, 5 lines,
6 columns, 7 steps along the picked axis, 8 elements of the indices from step to step, 9 and from column to column,
10 destination bytes from column to column, 11 size of the picked axis, 12 its stride in bytes.

Updates meet only along the picked axis, and a thread takes whole columns in the order of their steps.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.scalars import SIZES, combination, scalar_access
from softneuro.codegen.target import Target

__all__ = ["make"]

_BLOCK = 64


def make(target: Target, dtype: str, reduction: str, wide: bool) -> Callable[[int, int, int], None]:
    """For int64 indices when ``wide``, else int32. Threads share the lines and blocks of columns.

    Negative indices count from the end. Updates with an index outside of the axis are dropped.
    """
    load, store = scalar_access(dtype)
    combine = combination(reduction)
    size = SIZES[dtype]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        destination, indices, updates = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        table, axes, lines, columns = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        steps, step, across, width = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        length, stride = load_i64(args, 11), load_i64(args, 12)
        blocks = (columns + _BLOCK - 1) // _BLOCK
        for unit in range(lines * blocks * tid // nthreads, lines * blocks * (tid + 1) // nthreads):
            line = unit // blocks
            first = (unit - line * blocks) * _BLOCK
            from_, to = axis_offsets(table, axes, line)
            for i in range(steps):
                for j in range(first, min(first + _BLOCK, columns)):
                    at = from_ + i * step + j * across
                    index = load_i64(indices, at) if wide else load_i32(indices, at)
                    if index < 0:
                        index += length
                    if 0 <= index < length:
                        place = destination + to + j * width + index * stride
                        store(place, combine(load(place), load(updates + at * size)))

    return kernel
