"""Interleave a few rows into one (or take them apart): channels-last with two to four channels.

Words: 0 source, 1 destination, 2 axis table, 3 axes in it, 4 loops over them, 5 elements of a row, 6 bytes from
row to row on the side where the rows are apart, 7 how many rows, 8 whether they are joined (1) or parted (0).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import element_access
from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import deinterleave, interleave

__all__ = ["make"]


def make(target: Target, size: int) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes.

    Threads share blocks of one vector of each row; the last block of a row overlaps the one before it.
    """
    count = target.vector_bits // 8 // size
    load, store = element_access(size)
    join, part = interleave(target, size), deinterleave(target, size)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, table, axes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        loops, length, step = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        streams, joins = load_i64(args, 7), load_i64(args, 8)
        blocks = (length + count - 1) // count
        first, last = loops * blocks * tid // nthreads, loops * blocks * (tid + 1) // nthreads
        while first < last:
            loop = first // blocks
            block = first - loop * blocks
            end = min(blocks, block + last - first)
            first += end - block
            from_, to = axis_offsets(table, axes, loop)
            from_ += source
            to += destination
            if length < count:
                for i in range(length):
                    for s in range(streams):
                        apart, together = s * step + i * size, (i * streams + s) * size
                        store(to + (together if joins else apart), load(from_ + (apart if joins else together)))
            else:
                whole = min(end, length // count) - block
                start = block * count * size
                tail = (length - count) * size
                if joins:
                    if whole > 0:
                        join(streams, from_ + start, step, to + start * streams, whole)
                    if whole < end - block:
                        join(streams, from_ + tail, step, to + tail * streams, 1)
                else:
                    if whole > 0:
                        part(streams, from_ + start * streams, to + start, step, whole)
                    if whole < end - block:
                        part(streams, from_ + tail * streams, to + tail, step, 1)

    return kernel
