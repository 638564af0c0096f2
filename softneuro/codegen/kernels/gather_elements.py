"""Pick single elements along one axis by an index tensor of the same rank.

Words: 0 source, 1 indices, 2 destination, 3 table of the axes outside the runs (see `codegen.loops`: source strides
are x's, 0 for the picked axis; destination strides count elements of the destination), 4 axes in it, 5 runs,
6 elements of a run, 7 source bytes from one element of a run to the next (0 when the run lies along the picked axis),
8 size of the picked axis (at least 1), 9 its stride in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import element_access
from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, size: int, wide: bool) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes and int64 indices when ``wide``, else int32. Threads share the runs.

    Negative indices count from the end. Indices outside the axis are moved to its ends: nothing else is read.
    """
    load, store = element_access(size)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, indices, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        table, axes, runs, run = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        along, length, stride = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9)
        # a few long runs are shared by elements
        split = max(1, min(run, nthreads // max(1, runs)))
        for unit in range(runs * split * tid // nthreads, runs * split * (tid + 1) // nthreads):
            number = unit // split
            part = unit - number * split
            from_, to = axis_offsets(table, axes, number)
            for i in range(run * part // split, run * (part + 1) // split):
                index = load_i64(indices, to + i) if wide else load_i32(indices, to + i)
                if index < 0:
                    index += length
                index = min(max(index, 0), length - 1)
                store(destination + (to + i) * size, load(source + from_ + i * along + index * stride))

    return kernel
