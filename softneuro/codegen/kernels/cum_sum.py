"""Running sums along one axis.

Words: 0 x, 1 y, 2 outer lines, 3 elements of a line, 4 inner lines (that lie side by side), 5 whether sums run from the
end, 6 whether an element's own value is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softneuro.codegen.memory import load_i64
from softneuro.codegen.scalars import SIZES, scalar_access
from softneuro.codegen.target import Target

__all__ = ["make"]

_BLOCK = 64
_ZEROS = {"f32": np.float32(0), "f64": np.float64(0)}


def make(target: Target, dtype: str) -> Callable[[int, int, int], None]:
    """Threads share blocks of lines that lie side by side."""
    load, store = scalar_access(dtype)
    size, zero = SIZES[dtype], _ZEROS.get(dtype, 0)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y = load_i64(args, 0), load_i64(args, 1)
        outer, length, inner = load_i64(args, 2), load_i64(args, 3), load_i64(args, 4)
        reverse, exclusive = load_i64(args, 5), load_i64(args, 6)
        step = -inner * size if reverse else inner * size
        start = (length - 1) * inner * size if reverse else 0
        blocks = (inner + _BLOCK - 1) // _BLOCK
        for unit in range(outer * blocks * tid // nthreads, outer * blocks * (tid + 1) // nthreads):
            line = unit // blocks
            first = (unit - line * blocks) * _BLOCK
            width = min(_BLOCK, inner - first)
            base = (line * length * inner + first) * size + start
            back = step if exclusive else 0
            for i in range(length):
                at = base + i * step
                if i > 0:
                    for j in range(0, width * size, size):
                        store(y + at + j, load(y + at - step + j) + load(x + at - back + j))
                else:
                    for j in range(0, width * size, size):
                        store(y + at + j, zero if exclusive else load(x + at + j))

    return kernel
