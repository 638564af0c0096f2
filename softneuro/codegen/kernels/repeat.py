"""Rows whose elements are each repeated a fixed number of times: enlarging by a whole factor, nearest.

Words: 0 source, 1 destination, 2 row table (int64 byte offset in the source image), 3 images, 4 source and
5 destination bytes of an image, 6 rows of an image, 7 elements of a source row, 8 how often each is repeated.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_bytes, element_access
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import repeat_elements

__all__ = ["make"]


def make(target: Target, size: int) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes. A row that shows the same source as the one before it is copied from there."""
    count = target.vector_bits // 8 // size
    copy = copy_bytes(target)
    load, store = element_access(size)
    repeat = repeat_elements(target, size)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, row_table = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        images, source_image, destination_image = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5)
        rows, elements, factor = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        length = elements * factor * size
        first = images * rows * tid // nthreads
        for number in range(first, images * rows * (tid + 1) // nthreads):
            image = number // rows
            row = number - image * rows
            offset = load_i64(row_table, row)
            to = destination + image * destination_image + row * length
            if number > first and row > 0 and offset == load_i64(row_table, row - 1):
                copy(to, to - length, length)
            else:
                from_ = source + image * source_image + offset
                if elements < count:
                    for i in range(elements):
                        value = load(from_ + i * size)
                        for k in range(factor):
                            store(to + (i * factor + k) * size, value)
                else:
                    repeat(factor, from_, to, elements // count)
                    last = (elements - count) * size  # the last vector overlaps the one before it
                    if elements % count:
                        repeat(factor, from_ + last, to + last * factor, 1)

    return kernel
