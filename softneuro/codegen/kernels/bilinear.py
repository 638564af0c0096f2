"""Bilinear resampling of channels-last float32 images: four pixels weighted into one, a vector of channels at a time.

Words: 0 source, 1 destination, 2 row offsets (int64 [output row][2], bytes), 3 row weights (float32), 4 column
offsets, 5 column weights, 6 images, 7 source bytes of an image, 8 output rows, 9 output columns, 10 channels.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_f32, load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share output rows."""
    v = vectors(target)
    load, store, load_n, store_n, splat, mul, fma = v.load, v.store, v.load_n, v.store_n, v.splat, v.mul, v.fma
    lanes = v.lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination = load_i64(args, 0), load_i64(args, 1)
        row_table, row_weights, column_table, column_weights = (
            load_i64(args, 2), load_i64(args, 3), load_i64(args, 4), load_i64(args, 5))
        images, source_image = load_i64(args, 6), load_i64(args, 7)
        rows, columns, channels = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        whole = channels // lanes * lanes
        rest = channels - whole
        for number in range(images * rows * tid // nthreads, images * rows * (tid + 1) // nthreads):
            image = number // rows
            row = number - image * rows
            upper = source + image * source_image + load_i64(row_table, 2 * row)
            lower = source + image * source_image + load_i64(row_table, 2 * row + 1)
            above, below = load_f32(row_weights, 2 * row), load_f32(row_weights, 2 * row + 1)
            for column in range(columns):
                left, right = load_i64(column_table, 2 * column), load_i64(column_table, 2 * column + 1)
                before, after = load_f32(column_weights, 2 * column), load_f32(column_weights, 2 * column + 1)
                a, b, c, d = upper + left, upper + right, lower + left, lower + right
                p, q = splat(above * before), splat(above * after)
                r, s = splat(below * before), splat(below * after)
                to = destination + (number * columns + column) * channels * 4
                for i in range(0, whole * 4, lanes * 4):
                    top = fma(p, load(a + i), mul(q, load(b + i)))
                    store(to + i, fma(r, load(c + i), fma(s, load(d + i), top)))
                if rest:
                    i = whole * 4
                    top = fma(p, load_n(a + i, rest), mul(q, load_n(b + i, rest)))
                    store_n(to + i, fma(r, load_n(c + i, rest), fma(s, load_n(d + i, rest), top)), rest)

    return kernel
