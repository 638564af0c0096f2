"""Batched matrix products of any element type, without packing: four vectors of a row of the result at once, or one
element at a time where the right side is transposed.

Words: 0 a, 1 b, 2 y, 3 batches, 4 m, 5 k, 6 n, 7 batch table, 8 bytes from one row of a to the next, 9 bytes from one
column of a to the next, 10 bias (or 0). The table is int64 [batch][2]: byte offsets of the matrices of a and of b.
b is (k, n), or transposed (n, k) with rows of a that lie densely, row-major; integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.lanes import lanes_of
from softneuro.codegen.memory import load_i64
from softneuro.codegen.reduction import reduction
from softneuro.codegen.target import Target

__all__ = ["make"]


Kernel = Callable[[int, int, int], None]


def make(target: Target, dtype: str, transpose: bool) -> Kernel:
    """The kernel for one element type and orientation of b."""
    return _dots(target, dtype) if transpose else _rows(target, dtype)


def _rows(target: Target, dtype: str) -> Kernel:
    numbers = lanes_of(target, dtype)
    load, load_n, store, store_n, splat_at = numbers.load, numbers.load_n, numbers.store, numbers.store_n, numbers.splat_at
    multiply_add, in_lanes, lanes, size = numbers.multiply_add, numbers.count, numbers.lanes, numbers.bytes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, b, y, batches = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        m, k, n, table = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        row_bytes, column_bytes, bias = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        vector, width = lanes * size, 4 * lanes
        zero = in_lanes(0)
        units = batches * m
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            batch = unit // m
            row = unit - batch * m
            left = a + load_i64(table, 2 * batch) + row * row_bytes
            right = b + load_i64(table, 2 * batch + 1)
            place = y + unit * n * size
            whole = n - n % width
            for j in range(0, whole, width):
                p, q, r, s = zero, zero, zero, zero
                if bias != 0:
                    start = bias + j * size
                    p, q = load(start), load(start + vector)
                    r, s = load(start + 2 * vector), load(start + 3 * vector)
                for i in range(k):
                    factor = splat_at(left + i * column_bytes)
                    source = right + (i * n + j) * size
                    p = multiply_add(factor, load(source), p)
                    q = multiply_add(factor, load(source + vector), q)
                    r = multiply_add(factor, load(source + 2 * vector), r)
                    s = multiply_add(factor, load(source + 3 * vector), s)
                store(place + j * size, p)
                store(place + j * size + vector, q)
                store(place + j * size + 2 * vector, r)
                store(place + j * size + 3 * vector, s)
            for j in range(whole, n, lanes):
                part = min(lanes, n - j)
                p = load_n(bias + j * size, part) if bias != 0 else zero
                for i in range(k):
                    p = multiply_add(splat_at(left + i * column_bytes), load_n(right + (i * n + j) * size, part), p)
                store_n(place + j * size, p, part)

    return kernel


def _dots(target: Target, dtype: str) -> Kernel:
    numbers, sums = lanes_of(target, dtype), reduction(target, "sum", dtype)
    load, load_n, store_n, splat = numbers.load, numbers.load_n, numbers.store_n, numbers.splat
    multiply_add, in_lanes, lanes, size = numbers.multiply_add, numbers.count, numbers.lanes, numbers.bytes
    across, merge = sums.across, sums.merge

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, b, y, batches = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        m, k, n, table = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        row_bytes, bias = load_i64(args, 8), load_i64(args, 10)
        zero = in_lanes(0)
        whole = k - k % lanes
        units = batches * m
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            batch = unit // m
            left = a + load_i64(table, 2 * batch) + (unit - batch * m) * row_bytes
            right = b + load_i64(table, 2 * batch + 1)
            for j in range(n):
                column, total = right + j * k * size, zero
                for i in range(0, whole, lanes):
                    total = multiply_add(load(left + i * size), load(column + i * size), total)
                if whole < k:
                    rest = k - whole
                    total = multiply_add(load_n(left + whole * size, rest), load_n(column + whole * size, rest), total)
                result = splat(across(total))
                if bias != 0:
                    result = merge(result, load_n(bias + j * size, 1))
                store_n(y + (unit * n + j) * size, result, 1)

    return kernel
