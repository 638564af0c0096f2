"""Sorted lists of keys and positions (see `kernels.top_k`) merged, and the elements at those positions.

Words: 0 x, 1 keys, 2 positions, 3 lines, 4 parts, 5 elements of a line, 6 k, 7 inner lines, 8 bytes of an element,
9 elements out, 10 positions out (int64), 11 memory for how much of each list is used (int64 [line][part]).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_unit
from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the lines."""
    copy = copy_unit(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, all_keys, all_positions = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        lines, parts, length, k = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        inner, size = load_i64(args, 7), load_i64(args, 8)
        elements, places, all_used = load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        for line in range(lines * tid // nthreads, lines * (tid + 1) // nthreads):
            outer = line // inner
            column = line - outer * inner
            keys, positions, used = all_keys + line * parts * k * 8, all_positions + line * parts * k * 8, line * parts
            for part in range(parts):
                store_i64(all_used, used + part, 0)
            for rank in range(k):
                best, found, taken = 0, -1, -1
                for part in range(parts):
                    at = load_i64(all_used, used + part)
                    held = min(k, length * (part + 1) // parts - length * part // parts)
                    if at < held:
                        key = load_i64(keys, part * k + at)
                        if taken < 0 or key > best:  # a later part's positions are higher: it loses a tie
                            best, found, taken = key, load_i64(positions, part * k + at), part
                store_i64(all_used, used + taken, load_i64(all_used, used + taken) + 1)
                to = (outer * k + rank) * inner + column
                store_i64(places, to, found)
                copy(elements + to * size, x + ((outer * length + found) * inner + column) * size, size)

    return kernel
