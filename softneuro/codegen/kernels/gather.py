"""Pick rows by an index tensor.

Words: 0 source, 1 indices, 2 destination, 3 loops over the axes before the picked one, 4 rows of the picked axis
(at least 1), 5 indices, 6 bytes of a row.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_unit
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, wide: bool) -> Callable[[int, int, int], None]:
    """For int64 indices when ``wide``, else int32.

    Negative indices count from the end. Indices outside the axis are moved to its ends: nothing else is read.
    """
    copy = copy_unit(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, indices, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        loops, rows, count, length = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        for number in range(loops * count * tid // nthreads, loops * count * (tid + 1) // nthreads):
            loop = number // count
            position = number - loop * count
            index = load_i64(indices, position) if wide else load_i32(indices, position)
            if index < 0:
                index += rows
            index = min(max(index, 0), rows - 1)
            copy(destination + number * length, source + (loop * rows + index) * length, length)

    return kernel
