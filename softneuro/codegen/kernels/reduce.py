"""Reductions over any axes: along runs of neighbours, or across columns of neighbours.

Words: 0 x, 1 y, 2 lines, 3 run, 4 count (elements behind one result), 5 outer table, 6 its length, 7 outer stride,
8 reduced table, 9 its length, 10 reduced steps, 11 reduced stride, 12 whether the run is reduced (1) or kept (0).

Line i starts at ``(i // length) * outer stride + outer table[i % length]``; what it reduces lies at
``step * reduced stride + reduced table[j]`` from there for every step and j. Tables are int64 and all strides are
bytes. ``run``: neighbours reduced at each such place (rows), or neighbouring lines that share all offsets (columns).
"""

from __future__ import annotations

from collections.abc import Callable

from numba.extending import register_jitable

from softneuro.codegen.lanes import lanes_of
from softneuro.codegen.memory import load_i64
from softneuro.codegen.reduction import reduction
from softneuro.codegen.target import Target

__all__ = ["make"]

Kernel = Callable[[int, int, int], None]


def make(target: Target, kind: str, dtype: str) -> Kernel:
    """The kernel of a reduction kind on one element type, whose vectors lie along runs that are reduced, else across
    columns."""
    rows, columns = register_jitable(_rows(target, kind, dtype)), register_jitable(_columns(target, kind, dtype))

    def kernel(args: int, tid: int, nthreads: int) -> None:
        if load_i64(args, 12):
            rows(args, tid, nthreads)
        else:
            columns(args, tid, nthreads)

    return kernel


def _rows(target: Target, kind: str, dtype: str) -> Kernel:
    numbers, steps = lanes_of(target, dtype), reduction(target, kind, dtype)
    load, load_part, store_n, splat, in_lanes = numbers.load, numbers.load_or, numbers.store_n, numbers.splat, numbers.count
    lanes, size = numbers.lanes, numbers.bytes
    step, merge, across, finish, start = steps.step, steps.merge, steps.across, steps.finish, steps.start

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, lines, run = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        count = in_lanes(load_i64(args, 4))
        outer, outer_length, outer_stride = load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        table, table_length = load_i64(args, 8), load_i64(args, 9)
        times, stride = load_i64(args, 10), load_i64(args, 11)
        vector = lanes * size
        rest = run % lanes
        whole = (run - rest) * size
        unrolled = whole - whole % (4 * vector)
        identity = splat(start)
        for line in range(lines * tid // nthreads, lines * (tid + 1) // nthreads):
            block = line // outer_length
            base = x + block * outer_stride + load_i64(outer, line - block * outer_length)
            a, b, c, d = identity, identity, identity, identity
            for time in range(times):
                for j in range(table_length):
                    place = base + time * stride + load_i64(table, j)
                    for i in range(0, unrolled, 4 * vector):
                        a = step(a, load(place + i))
                        b = step(b, load(place + i + vector))
                        c = step(c, load(place + i + 2 * vector))
                        d = step(d, load(place + i + 3 * vector))
                    for i in range(unrolled, whole, vector):
                        a = step(a, load(place + i))
                    if rest:
                        b = step(b, load_part(place + whole, rest, identity))
            result = splat(across(merge(merge(a, b), merge(c, d))))
            store_n(y + line * size, finish(result, count), 1)

    return kernel


def _columns(target: Target, kind: str, dtype: str) -> Kernel:
    numbers, steps = lanes_of(target, dtype), reduction(target, kind, dtype)
    load, store, load_n, store_n = numbers.load, numbers.store, numbers.load_n, numbers.store_n
    splat, in_lanes, lanes, size = numbers.splat, numbers.count, numbers.lanes, numbers.bytes
    step, finish, start = steps.step, steps.finish, steps.start

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, lines, run = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        count = in_lanes(load_i64(args, 4))
        outer, outer_length, outer_stride = load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        table, table_length = load_i64(args, 8), load_i64(args, 9)
        times, stride = load_i64(args, 10), load_i64(args, 11)
        vector = lanes * size
        blocks = (run + 4 * lanes - 1) // (4 * lanes)
        units = lines * blocks
        identity = splat(start)
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            line = unit // blocks
            first = (unit - line * blocks) * 4 * lanes
            block = line // outer_length
            base = x + block * outer_stride + load_i64(outer, line - block * outer_length) + first * size
            target_place = y + (line * run + first) * size
            if run - first >= 4 * lanes:
                a, b, c, d = identity, identity, identity, identity
                for time in range(times):
                    for j in range(table_length):
                        place = base + time * stride + load_i64(table, j)
                        a = step(a, load(place))
                        b = step(b, load(place + vector))
                        c = step(c, load(place + 2 * vector))
                        d = step(d, load(place + 3 * vector))
                store(target_place, finish(a, count))
                store(target_place + vector, finish(b, count))
                store(target_place + 2 * vector, finish(c, count))
                store(target_place + 3 * vector, finish(d, count))
            else:
                for column in range(0, run - first, lanes):
                    part = min(lanes, run - first - column)
                    a = identity
                    for time in range(times):
                        for j in range(table_length):
                            place = base + time * stride + load_i64(table, j)
                            a = step(a, load_n(place + column * size, part))
                    store_n(target_place + column * size, finish(a, count), part)

    return kernel
