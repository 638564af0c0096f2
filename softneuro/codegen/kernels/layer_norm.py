"""Normalisation of rows: mean, mean square deviation, then the scaled row; all but the first read hits the cache.

Words: 0 x, 1 y, 2 scale, 3 bias (or 0), 4 rows, 5 length, 6 channels.
Scale and bias have a number for each position in a row, or, for channels above 0, one for each row modulo channels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softneuro.codegen.lanes import lanes_of
from softneuro.codegen.memory import load_i64
from softneuro.codegen.reduction import reduction
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target, epsilon: float, bias: bool) -> Callable[[int, int, int], None]:
    """The kernel for rows of any length.

    The deviations are squared only once the mean is known: sums of squares less the squared mean lose all digits
    when the mean is large.
    """
    f32, elements = vectors(target), lanes_of(target, "f32")
    load_part, splat_at = elements.load_or, elements.splat_at
    load, store, load_n, store_n, splat, lanes = f32.load, f32.store, f32.load_n, f32.store_n, f32.splat, f32.lanes
    add, sub, mul, div, fma, sqrt = f32.add, f32.sub, f32.mul, f32.div, f32.fma, f32.sqrt
    across = reduction(target, "sum").across
    small = np.float32(epsilon)
    add_bias = bias

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, scale, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        rows, length, channels = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        vector = lanes * 4
        rest = length % lanes
        whole = (length - rest) * 4
        unrolled = whole - whole % (4 * vector)
        share = div(splat(np.float32(1.0)), splat(np.float32(length)))
        zero = splat(np.float32(0.0))
        for row in range(rows * tid // nthreads, rows * (tid + 1) // nthreads):
            source, place = x + row * length * 4, y + row * length * 4
            a, b, c, d = zero, zero, zero, zero
            for i in range(0, unrolled, 4 * vector):
                a = add(a, load(source + i))
                b = add(b, load(source + i + vector))
                c = add(c, load(source + i + 2 * vector))
                d = add(d, load(source + i + 3 * vector))
            for i in range(unrolled, whole, vector):
                a = add(a, load(source + i))
            if rest:
                b = add(b, load_n(source + whole, rest))
            mean = mul(splat(across(add(add(a, b), add(c, d)))), share)
            a, b, c, d = zero, zero, zero, zero
            for i in range(0, unrolled, 4 * vector):
                e, f = sub(load(source + i), mean), sub(load(source + i + vector), mean)
                g, h = sub(load(source + i + 2 * vector), mean), sub(load(source + i + 3 * vector), mean)
                a, b, c, d = fma(e, e, a), fma(f, f, b), fma(g, g, c), fma(h, h, d)
            for i in range(unrolled, whole, vector):
                e = sub(load(source + i), mean)
                a = fma(e, e, a)
            if rest:
                e = sub(load_part(source + whole, rest, mean), mean)
                b = fma(e, e, b)
            variance = mul(splat(across(add(add(a, b), add(c, d)))), share)
            factor = div(splat(np.float32(1.0)), sqrt(add(variance, splat(small))))
            if channels > 0:
                channel = (row % channels) * 4
                factor = mul(factor, splat_at(scale + channel))
                shift = splat_at(bias + channel) if add_bias else zero
                for i in range(0, whole, vector):
                    store(place + i, fma(sub(load(source + i), mean), factor, shift))
                if rest:
                    store_n(place + whole, fma(sub(load_n(source + whole, rest), mean), factor, shift), rest)
                continue
            for i in range(0, whole, vector):
                value = mul(mul(sub(load(source + i), mean), factor), load(scale + i))
                if add_bias:
                    value = add(value, load(bias + i))
                store(place + i, value)
            if rest:
                value = mul(mul(sub(load_n(source + whole, rest), mean), factor), load_n(scale + whole, rest))
                if add_bias:
                    value = add(value, load_n(bias + whole, rest))
                store_n(place + whole, value, rest)

    return kernel
