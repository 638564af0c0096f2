"""Decision trees: a tile of samples goes down one tree in lock step, or one sample down as many trees.

Words: 0 x ([n][features]), 1 y ([n][targets]), 2 n, 3 features, 4 targets, 5 trees, 6 comparisons (int64 [count][2]: the
feature, and whether NaN is the smallest of its keys and not the largest), 7 their number and 8 whether every leaf says
something of every target (addresses of int64), 9 nodes, 10 roots (int64 [trees, filled up][2]: the byte offset of the
root, the steps to the deepest leaf), 11 first entry by leaf (int64), 12 entries' targets (int64), 13 entries' weights
(float64), 14 tiles of a block, 15 what sums are divided by, 16 scratch, 17 its bytes for
a thread, 18 the most comparisons that there may be, 19 how weights meet: 0 sum, 1 minimum, 2 maximum, 20 whether what no
leaf said anything of is NaN and not 0.

A node is the key of its threshold, then int32: the offset of what it compares in a tile, the byte offset of the node to
go on with when the key of x is larger, and when not. A leaf goes on with itself; its key is its number. Keys are
integers with the order of the floats. A tile holds the keys that some node compares: [comparison][lane].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import register_jitable

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.scalars import SIZES, integer_access, order_key, scalar_access
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32

__all__ = ["make"]


def _walk(name: str, lanes: int, size: int, step: int, together: bool) -> Any:
    """The intrinsic ``walk(nodes, tile, roots, depth, leaves)``: the leaves' numbers (int64) after ``depth`` steps.

    together: all lanes start at the first of the roots, and are ``step`` bytes apart in the tile.
    """
    kind = ir.IntType(8 * size)

    def widened(builder: Any, pointer: Any) -> Any:
        return builder.sext(load_at(builder, pointer, I32), I64)

    def body(builder: Any, args: list[Any]) -> None:
        nodes, tile, roots, depth, leaves = args
        starts = [load_at(builder, byte_offset(builder, roots, 0 if together else 16 * lane), I64, 8) for lane in range(lanes)]
        loop = CountedLoop(builder, depth, starts)
        following = []
        for lane, place in enumerate(loop.carried):
            node = byte_offset(builder, nodes, place)
            offset = builder.add(widened(builder, byte_offset(builder, node, size)), I64(lane * step))
            compared = byte_offset(builder, tile, offset)
            holds = builder.icmp_signed("<=", load_at(builder, compared, kind), load_at(builder, node, kind))
            child = byte_offset(builder, node, builder.mul(builder.zext(holds, I64), I64(4)))
            following.append(widened(builder, byte_offset(builder, child, size + 4)))
        loop.end(following)
        for lane, place in enumerate(loop.carried):
            number = load_at(builder, byte_offset(builder, nodes, place), kind)
            number = builder.sext(number, I64) if size < 8 else number
            store_at(builder, number, byte_offset(builder, leaves, 8 * lane), 8)

    return micro_kernel(name, 5, body)


def make(target: Target, dtype: str, result: str, lanes: int) -> Callable[[int, int, int], None]:
    """For x of ``dtype`` and y of ``result``: f32 or f64. Threads share the samples."""
    size, out_size = SIZES[dtype], SIZES[result]
    most, least = (1 << (8 * size - 1)) - 1, -(1 << (8 * size - 1))
    walk_samples = _walk("walk_samples", lanes, size, size, together=True)
    walk_trees = _walk("walk_trees", lanes, size, 0, together=False)
    key_at, (_, store_key) = order_key(dtype), integer_access(f"i{8 * size}")
    load_number, store_number = scalar_access("f64")
    _, store_result = scalar_access(result)
    as_result = np.float32 if result == "f32" else np.float64

    @register_jitable
    def fill(x: int, features: int, comparisons: int, count: int, tile: int, held: int) -> None:
        """The keys of ``held`` samples from ``x`` on."""
        for lane in range(held):
            row = x + lane * features * size
            for i in range(count):
                key = key_at(row + load_i64(comparisons, 2 * i) * size)
                if key == most and load_i64(comparisons, 2 * i + 1):
                    key = least
                store_key(tile + (i * lanes + lane) * size, key)

    @register_jitable
    def meet(place: int, weight: float, how: int) -> None:
        held = load_number(place)
        store_number(place, held + weight if how == 0 else min(held, weight) if how == 1 else max(held, weight))

    @register_jitable
    def add(leaf: int, how: int, dense: int, targets: int, first: int, entries: int, weights: int, sums: int, said: int) -> None:
        """What one leaf says of one sample."""
        if dense:
            for i in range(targets):
                meet(sums + i * 8, load_number(weights + (leaf * targets + i) * 8), how)
            return
        for entry in range(load_i64(first, leaf), load_i64(first, leaf + 1)):
            i = load_i64(entries, entry)
            meet(sums + i * 8, load_number(weights + entry * 8), how)
            store_i64(said, i, 1)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, n, features = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        targets, trees, comparisons = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        count, dense = load_i64(load_i64(args, 7), 0), load_i64(load_i64(args, 8), 0)
        nodes, roots, first = load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        entries, weights, tiles = load_i64(args, 12), load_i64(args, 13), load_i64(args, 14)
        divisor, leaves = float(load_i64(args, 15)), load_i64(args, 16) + tid * load_i64(args, 17)
        held_bytes = load_i64(args, 18) * lanes * size
        how = load_i64(args, 19)
        start = 0.0 if how == 0 else np.inf if how == 1 else -np.inf
        unsaid = np.nan if load_i64(args, 20) else 0.0
        block = tiles * lanes
        sums = leaves + 8 * lanes
        said = sums + 8 * block * targets
        keys = said + 8 * block * targets
        last = n * (tid + 1) // nthreads
        for begin in range(n * tid // nthreads, last, block):
            held = min(block, last - begin)
            whole = held - held % lanes
            for i in range(0, held, lanes):
                fill(x + (begin + i) * features * size, features, comparisons, count, keys + i // lanes * held_bytes,
                     min(lanes, held - i))
            for i in range(held * targets):
                store_number(sums + i * 8, start)
                store_i64(said, i, 0)
            for tree in range(trees if whole else 0):
                root = roots + 16 * tree
                for i in range(0, whole, lanes):
                    walk_samples(nodes, keys + i // lanes * held_bytes, root, load_i64(root, 1), leaves)
                    for lane in range(lanes):
                        place = (i + lane) * targets * 8
                        add(load_i64(leaves, lane), how, dense, targets, first, entries, weights, sums + place, said + place)
            for i in range(whole, held):
                tile = keys + whole // lanes * held_bytes + (i - whole) * size
                place = i * targets * 8
                for tree in range(0, trees, lanes):
                    root = roots + 16 * tree
                    depth = 1
                    for lane in range(lanes):
                        depth = max(depth, load_i64(root, 2 * lane + 1))
                    walk_trees(nodes, tile, root, depth, leaves)
                    for lane in range(min(lanes, trees - tree)):
                        add(load_i64(leaves, lane), how, dense, targets, first, entries, weights, sums + place, said + place)
            for i in range(held * targets):
                value = load_number(sums + i * 8) / divisor
                if not dense and load_i64(said, i) == 0:
                    value = unsaid
                store_result(y + (begin * targets + i) * out_size, as_result(value))

    return kernel
