"""Copy single elements between two strided tensors of any rank: the general case, and repeating one element.

Words: 0 source, 1 destination, 2 axis table, 3 axes in it, 4 loops over them, 5 elements in each, 6 source bytes
and 7 destination bytes from element to element, 8 how many elements apart source elements are when that is a few and
destination elements are neighbours, else 0.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import element_access, fill_bytes
from softneuro.codegen.elements import pattern_word
from softneuro.codegen.loops import axis_offsets
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.transpose_tile import take_every

__all__ = ["make"]


def make(target: Target, size: int) -> Callable[[int, int, int], None]:
    """For elements of ``size`` bytes. Threads share the elements."""
    lanes = target.vector_bits // 8 // size
    load, store = element_access(size)
    fill = fill_bytes(target)
    take = take_every(target, size)
    repeat = pattern_word(b"\1" + bytes(size - 1))  # times an element: the element as often as it fits

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, table, axes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        loops, elements = load_i64(args, 4), load_i64(args, 5)
        source_step, destination_step, step = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        first, last = loops * elements * tid // nthreads, loops * elements * (tid + 1) // nthreads
        while first < last:
            loop = first // elements
            start = first - loop * elements
            count = min(elements - start, last - first)
            from_, to = axis_offsets(table, axes, loop)
            from_ += source + start * source_step
            to += destination + start * destination_step
            if source_step == 0 and destination_step == size:
                fill(to, count * size, load(from_) * repeat)
            elif step and count > lanes:
                take(step, from_, to, count)
            else:
                for i in range(count):
                    store(to + i * destination_step, load(from_ + i * source_step))
            first += count

    return kernel
