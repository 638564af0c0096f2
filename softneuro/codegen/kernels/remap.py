"""Rows whose units (elements or groups of bytes) come from anywhere in a source image: pads and nearest resizing.

Words: 0 source, 1 destination, 2 row table (int64 byte offset in the source image, negative: a row of the fill),
3 images, 4 source and 5 destination bytes of an image, 6 rows of an image, 7 unit table (int64 byte offset in the
row, negative: fill), 8 units before the middle, 9 source offset and 10 bytes of the middle, which is copied whole,
11 units after it, 12 bytes of a unit, 13 the fill (an element as often as it fits).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_bytes, element_access, fill_bytes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, size: int) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes. Threads share the rows.

    A row that shows the same source as the one before it is copied from there.
    """
    copy, fill = copy_bytes(target), fill_bytes(target)
    load, store = element_access(size)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, row_table = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        images, source_image, destination_image = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5)
        rows, units, before = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        middle_start, middle, after = load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        unit_bytes, word = load_i64(args, 12), load_i64(args, 13)
        length = (before + after) * unit_bytes + middle
        first = images * rows * tid // nthreads
        last = images * rows * (tid + 1) // nthreads
        for number in range(first, last):
            image = number // rows
            row = number - image * rows
            offset = load_i64(row_table, row)
            to = destination + image * destination_image + row * length
            if number > first and row > 0 and offset == load_i64(row_table, row - 1):
                copy(to, to - length, length)
            elif offset < 0:
                fill(to, length, word)
            else:
                from_ = source + image * source_image + offset
                if unit_bytes == size:
                    for i in range(before + after):
                        place = load_i64(units, i)
                        at = to + i * size + (middle if i >= before else 0)
                        store(at, word if place < 0 else load(from_ + place))
                else:
                    for i in range(before + after):
                        place = load_i64(units, i)
                        at = to + i * unit_bytes + (middle if i >= before else 0)
                        if place < 0:
                            fill(at, unit_bytes, word)
                        else:
                            copy(at, from_ + place, unit_bytes)
                copy(to + before * unit_bytes, from_ + middle_start, middle)

    return kernel
