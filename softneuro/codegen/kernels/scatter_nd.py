"""Copy a tensor and write slices to places that tuples of coordinates pick.

Words: 0 x, 1 indices, 2 updates, 3 destination, 4 table (int64 size and slices of each coordinate's axis), 5 its axes
(the coordinates of a tuple), 6 tuples, 7 slices of x, 8 bytes of a slice.

A thread owns a range of the destination's slices: it copies them and then writes the updates that fall into it, in the
order of the tuples, so that the result does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable

from numba.extending import register_jitable

from softneuro.codegen.bulk import copy_bytes, copy_unit
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.scalars import SIZES, combination, scalar_access
from softneuro.codegen.target import Target

__all__ = ["make"]

Write = Callable[[int, int, int], None]


def _write(target: Target, dtype: str, reduction: str) -> Write:
    """write(place, update, bytes): one slice."""
    if reduction == "none":
        copy: Write = copy_unit(target)
        return copy
    load, store = scalar_access(dtype)
    combine = combination(reduction)
    size = SIZES[dtype]

    @register_jitable
    def write(place: int, update: int, length: int) -> None:
        for i in range(0, length, size):
            store(place + i, combine(load(place + i), load(update + i)))

    joined: Write = write
    return joined


def make(target: Target, dtype: str, reduction: str, wide: bool) -> Callable[[int, int, int], None]:
    """For int64 indices when ``wide``, else int32.

    Negative coordinates count from the end. Updates with a coordinate outside of its axis are dropped.
    """
    copy, write = copy_bytes(target), _write(target, dtype, reduction)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, indices, updates, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        table, depth, tuples = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        slices, length = load_i64(args, 7), load_i64(args, 8)
        first, end = slices * tid // nthreads, slices * (tid + 1) // nthreads
        copy(destination + first * length, x + first * length, (end - first) * length)
        for number in range(tuples):
            place = 0
            inside = True
            for i in range(depth):
                size = load_i64(table, 2 * i)
                index = load_i64(indices, number * depth + i) if wide else load_i32(indices, number * depth + i)
                if index < 0:
                    index += size
                inside = inside and 0 <= index < size
                place += min(max(index, 0), size - 1) * load_i64(table, 2 * i + 1)
            if inside and first <= place < end:
                write(destination + place * length, updates + number * length, length)

    return kernel
