"""One axis of a float32 tensor as weighted sums of its input elements, the axes inside it taken as one vector.

Words: 0 source, 1 destination, 2 offsets (int64 [output][taps], bytes), 3 weights (float32 [output][taps]), 4 loops
over the axes outside, 5 source bytes of each, 6 outputs of the axis, 7 floats inside, 8 taps.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_f32, load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share outputs."""
    v = vectors(target)
    load, store, load_n, store_n, splat, mul, fma = v.load, v.store, v.load_n, v.store_n, v.splat, v.mul, v.fma
    lanes = v.lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination = load_i64(args, 0), load_i64(args, 1)
        offsets, weights = load_i64(args, 2), load_i64(args, 3)
        loops, source_loop, outputs = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        inside, taps = load_i64(args, 7), load_i64(args, 8)
        whole = inside // lanes * lanes
        rest = inside - whole
        for number in range(loops * outputs * tid // nthreads, loops * outputs * (tid + 1) // nthreads):
            loop = number // outputs
            output = number - loop * outputs
            from_ = source + loop * source_loop
            to = destination + number * inside * 4
            table, factors = offsets + output * taps * 8, weights + output * taps * 4
            if taps == 2:
                a, b = from_ + load_i64(table, 0), from_ + load_i64(table, 1)
                p, q = splat(load_f32(factors, 0)), splat(load_f32(factors, 1))
                for i in range(0, whole, lanes):
                    store(to + i * 4, fma(p, load(a + i * 4), mul(q, load(b + i * 4))))
                if rest:
                    value = fma(p, load_n(a + whole * 4, rest), mul(q, load_n(b + whole * 4, rest)))
                    store_n(to + whole * 4, value, rest)
            else:
                for i in range(0, whole, lanes):
                    total = splat(0.0)
                    for t in range(taps):
                        total = fma(splat(load_f32(factors, t)), load(from_ + load_i64(table, t) + i * 4), total)
                    store(to + i * 4, total)
                if rest:
                    total = splat(0.0)
                    for t in range(taps):
                        part = load_n(from_ + load_i64(table, t) + whole * 4, rest)
                        total = fma(splat(load_f32(factors, t)), part, total)
                    store_n(to + whole * 4, total, rest)

    return kernel
