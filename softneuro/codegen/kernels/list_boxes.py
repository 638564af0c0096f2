"""Selected boxes of all batches and classes as rows, one after the other.

Words: 0 selected boxes (int64 [batch][class][places]), 1 their numbers (int64 [batch][class]), 2 batches, 3 classes,
4 places, 5 rows out (int64 [batch * class * places][3]), 6 number of rows out (int64).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the batches and classes, and the rows after the last, which become zeros."""

    def kernel(args: int, tid: int, nthreads: int) -> None:
        chosen, counts, batches, classes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        places, rows, total = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        units = batches * classes
        first, end = units * tid // nthreads, units * (tid + 1) // nthreads
        row, used = 0, 0
        for unit in range(units):
            if unit == first:
                row = used
            used += load_i64(counts, unit)
        for unit in range(first, end):
            for i in range(load_i64(counts, unit)):
                store_i64(rows, 3 * row, unit // classes)
                store_i64(rows, 3 * row + 1, unit % classes)
                store_i64(rows, 3 * row + 2, load_i64(chosen, unit * places + i))
                row += 1
        unused = 3 * (units * places - used)
        for i in range(3 * used + unused * tid // nthreads, 3 * used + unused * (tid + 1) // nthreads):
            store_i64(rows, i, 0)
        if tid == 0:
            store_i64(total, 0, used)

    return kernel
