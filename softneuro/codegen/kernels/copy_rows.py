"""Copy rows of contiguous bytes between two strided tensors of any rank.

Words: 0 source, 1 destination, 2 axis table, 3 axes in it, 4 loops over them, 5 rows in each, 6 source bytes and
7 destination bytes from row to row, 8 bytes of a row.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_bytes
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the rows; when there are few, each takes its part of every row."""
    copy = copy_bytes(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, table, axes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        loops, rows = load_i64(args, 4), load_i64(args, 5)
        source_step, destination_step, length = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        first, last = loops * rows * tid // nthreads, loops * rows * (tid + 1) // nthreads
        start, end = 0, length
        if loops * rows < 4 * nthreads:
            first, last = 0, loops * rows
            lines = length // CACHE_LINE
            start = lines * tid // nthreads * CACHE_LINE
            if tid + 1 < nthreads:
                end = lines * (tid + 1) // nthreads * CACHE_LINE
        while first < last:
            loop = first // rows
            row = first - loop * rows
            count = min(rows - row, last - first)
            from_, to = axis_offsets(table, axes, loop)
            from_ += source + row * source_step + start
            to += destination + row * destination_step + start
            for i in range(count):
                copy(to + i * destination_step, from_ + i * source_step, end - start)
            first += count

    return kernel
