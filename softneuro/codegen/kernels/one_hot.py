"""A new axis along which one element is on and the others are off.

Words: 0 indices, 1 the off and the on value, 2 y, 3 outer loops, 4 size of the new axis (at least 1), 5 inner loops.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import element_access, fill_bytes
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]

_REPEATED = {1: 0x0101010101010101, 2: 0x0001000100010001, 4: 0x0000000100000001, 8: 1}


def make(target: Target, size: int, wide: bool) -> Callable[[int, int, int], None]:
    """For values of ``size`` bytes and int64 indices when ``wide``, else int32. Threads share the outer loops."""
    fill = fill_bytes(target)
    load, store = element_access(size)
    repeated = _REPEATED[size]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        indices, values, y = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        outer, depth, inner = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5)
        off, on = load(values) * repeated, load(values + size)
        for loop in range(outer * tid // nthreads, outer * (tid + 1) // nthreads):
            to = y + loop * depth * inner * size
            fill(to, depth * inner * size, off)
            for i in range(inner):
                at = loop * inner + i
                index = load_i64(indices, at) if wide else load_i32(indices, at)
                if index < 0:
                    index += depth
                if 0 <= index < depth:
                    store(to + (index * inner + i) * size, on)

    return kernel
