"""Pick slices by tuples of coordinates.

Words: 0 source, 1 indices, 2 destination, 3 table (int64 size and stride in bytes of each coordinate's axis), 4 its
axes (the coordinates of a tuple), 5 batches, 6 tuples of a batch, 7 source bytes of a batch, 8 bytes of a slice.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_unit
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, wide: bool) -> Callable[[int, int, int], None]:
    """For int64 indices when ``wide``, else int32. Threads share the tuples.

    Negative coordinates count from the end. Coordinates outside their axis are moved to its ends: nothing else is read.
    """
    copy = copy_unit(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, indices, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        table, depth, batches, tuples = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        batch_bytes, length = load_i64(args, 7), load_i64(args, 8)
        for number in range(batches * tuples * tid // nthreads, batches * tuples * (tid + 1) // nthreads):
            from_ = source + number // tuples * batch_bytes
            for i in range(depth):
                size = load_i64(table, 2 * i)
                index = load_i64(indices, number * depth + i) if wide else load_i32(indices, number * depth + i)
                if index < 0:
                    index += size
                from_ += min(max(index, 0), size - 1) * load_i64(table, 2 * i + 1)
            copy(destination + number * length, from_, length)

    return kernel
