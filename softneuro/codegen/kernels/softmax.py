"""Softmax or its logarithm over lines of elements that are neighbours, or ``inner`` elements apart.

Words: 0 x, 1 y, 2 outer, 3 length, 4 inner: x is (outer, length, inner), lines run along length.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numba.extending import register_jitable

from softneuro.codegen.elementary import decay_value, log_value
from softneuro.codegen.lanes import lanes_of
from softneuro.codegen.memory import load_i64
from softneuro.codegen.reduction import elementwise, reduction
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]

Kernel = Callable[[int, int, int], None]


def make(target: Target, log: bool) -> Kernel:
    """The kernel whose vectors lie along a line for inner = 1, else across lines.

    A NaN or an infinite largest element makes the sum, and so the whole line, NaN without being looked for.
    """
    rows, columns = register_jitable(_rows(target, log)), register_jitable(_columns(target, log))

    def kernel(args: int, tid: int, nthreads: int) -> None:
        if load_i64(args, 4) == 1:
            rows(args, tid, nthreads)
        else:
            columns(args, tid, nthreads)

    return kernel


def _rows(target: Target, log: bool) -> Kernel:
    f32 = vectors(target)
    load, store, store_n, splat, lanes = f32.load, f32.store, f32.store_n, f32.splat, f32.lanes
    add, sub, mul, div, maximum = f32.add, f32.sub, f32.mul, f32.div, f32.maximum
    across_sum, across_max = reduction(target, "sum").across, reduction(target, "max").across
    exp, logarithm, load_part = elementwise(target, decay_value), elementwise(target, log_value), lanes_of(target, "f32").load_or
    lowest = -math.inf

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, outer, length = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        rest = length % lanes
        whole = (length - rest) * 4
        vector = lanes * 4
        low = splat(lowest)
        for row in range(outer * tid // nthreads, outer * (tid + 1) // nthreads):
            source, place = x + row * length * 4, y + row * length * 4
            first = load_part(source + whole, rest, low)
            second = low
            for i in range(0, whole - vector, 2 * vector):
                first = maximum(load(source + i), first)
                second = maximum(load(source + i + vector), second)
            if whole % (2 * vector):
                second = maximum(load(source + whole - vector), second)
            peak = splat(across_max(maximum(first, second)))
            sums = splat(0.0)
            if rest:
                sums = exp(sub(load_part(source + whole, rest, low), peak))
                if not log:
                    store_n(place + whole, sums, rest)
            for i in range(0, whole, vector):
                power = exp(sub(load(source + i), peak))
                if not log:
                    store(place + i, power)
                sums = add(sums, power)
            if log:
                base = logarithm(splat(across_sum(sums)))
                for i in range(0, whole, vector):
                    store(place + i, sub(sub(load(source + i), peak), base))
                if rest:
                    store_n(place + whole, sub(sub(load_part(source + whole, rest, low), peak), base), rest)
            else:
                factor = div(splat(1.0), splat(across_sum(sums)))
                for i in range(0, whole, vector):
                    store(place + i, mul(load(place + i), factor))
                if rest:
                    store_n(place + whole, mul(load_part(place + whole, rest, low), factor), rest)

    return kernel


def _columns(target: Target, log: bool) -> Kernel:
    f32 = vectors(target)
    load_n, store_n, splat, lanes = f32.load_n, f32.store_n, f32.splat, f32.lanes
    add, sub, mul, div, maximum = f32.add, f32.sub, f32.mul, f32.div, f32.maximum
    exp, logarithm = elementwise(target, decay_value), elementwise(target, log_value)
    lowest = -math.inf

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, outer, length = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        inner = load_i64(args, 4)
        blocks = (inner + lanes - 1) // lanes
        units = outer * blocks
        step = inner * 4
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            block = unit // blocks
            column = (unit - block * blocks) * lanes
            count = min(lanes, inner - column)
            source, place = x + (block * length * inner + column) * 4, y + (block * length * inner + column) * 4
            peak = splat(lowest)
            for i in range(length):
                peak = maximum(load_n(source + i * step, count), peak)
            sums = splat(0.0)
            for i in range(length):
                power = exp(sub(load_n(source + i * step, count), peak))
                if not log:
                    store_n(place + i * step, power, count)
                sums = add(sums, power)
            if log:
                base = logarithm(sums)
                for i in range(length):
                    store_n(place + i * step, sub(sub(load_n(source + i * step, count), peak), base), count)
            else:
                factor = div(splat(1.0), sums)
                for i in range(length):
                    store_n(place + i * step, mul(load_n(place + i * step, count), factor), count)

    return kernel
