"""Triangles of matrices: a part of each row copied, the rest zeros.

Words: 0 x, 1 y, 2 rows of all matrices, 3 rows of a matrix, 4 columns, 5 bytes of an element, 6 columns by which the
diagonal lies right of the main one, 7 whether the upper triangle is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_bytes, fill_bytes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the rows."""
    copy, fill = copy_bytes(target), fill_bytes(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, lines, rows = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        columns, size, k, upper = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        length = columns * size
        for line in range(lines * tid // nthreads, lines * (tid + 1) // nthreads):
            diagonal = line % rows + k
            from_, to = x + line * length, y + line * length
            if upper:
                edge = min(max(diagonal, 0), columns) * size
                fill(to, edge, 0)
                copy(to + edge, from_ + edge, length - edge)
            else:
                edge = min(max(diagonal + 1, 0), columns) * size
                copy(to, from_, edge)
                fill(to + edge, length - edge, 0)

    return kernel
