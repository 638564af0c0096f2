"""Greedy non-maximum suppression of each batch and class, a vector of selected boxes against one candidate at a time.

Words: 0 boxes (float32 [batch][n][4]), 1 scores (float32 [batch][class][n]), 2 most boxes to select (int64), 3 overlap
threshold and 4 score threshold (float32; addresses, 0 when absent), 5 batches, 6 classes, 7 boxes n, 8 places for
selected boxes of a batch and class, 9 whether boxes are centred, 10 selected boxes (int64 [batch][class][places]),
11 their numbers (int64 [batch][class]), 12 scratch, 13 its bytes for a thread, 14 threads that have some.

A thread's scratch: keys and positions of the candidates (int64 [n] each), a heap with the best on top; then five rows
of float32: smallest and largest coordinates and the areas of selected boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.emit import I64, byte_offset
from softneuro.codegen.memory import load_f32, load_i64, store_f32, store_i64
from softneuro.codegen.scalars import order_key
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, build_intrinsic, first_lanes, masked_load, splat_value

__all__ = ["make"]


def _any_overlap(target: Target) -> Any:
    """The intrinsic ``any_overlap(rows, pitch, count, y0, x0, y1, x1, area, threshold) -> int64``: whether one of the
    first ``count`` boxes in a vector of five rows (``pitch`` bytes apart) overlaps the box by more than the threshold."""
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)

    def generate(builder: Any, args: list[Any]) -> Any:
        rows, pitch, count, *scalars = args
        mask = first_lanes(builder, count, lanes)

        def row(number: int) -> Any:
            return masked_load(builder, byte_offset(builder, rows, builder.mul(pitch, I64(number))), vector, mask)

        y0, x0, y1, x1, area, threshold = (splat_value(builder, s, lanes) for s in scalars)

        def shared(low: Any, high: Any, number: int) -> Any:
            other_low, other_high = row(number), row(number + 2)
            end = builder.select(builder.fcmp_ordered("<", high, other_high), high, other_high)
            begin = builder.select(builder.fcmp_ordered(">", low, other_low), low, other_low)
            return builder.fsub(end, begin)

        zero = ir.Constant(vector, None)
        height, width = shared(y0, y1, 0), shared(x0, x1, 1)
        common = builder.fmul(height, width)
        union = builder.fsub(builder.fadd(area, row(4)), common)
        found = builder.fcmp_ordered(">", builder.fdiv(common, union), threshold)
        for value in (height, width, union):
            found = builder.and_(found, builder.fcmp_ordered(">", value, zero))
        bits = builder.bitcast(builder.and_(found, mask), ir.IntType(lanes))
        return builder.zext(builder.icmp_unsigned("!=", bits, ir.IntType(lanes)(0)), I64)

    return build_intrinsic(types.int64, [types.int64] * 3 + [types.float32] * 6, generate)


@register_jitable
def _sift(keys: int, positions: int, root: int, count: int, key: int, position: int) -> None:
    """Let (key, position) sink from the free place ``root`` of a heap: larger keys first, then lower positions."""
    child = 2 * root + 1
    while child < count:
        best, where = load_i64(keys, child), load_i64(positions, child)
        if child + 1 < count:
            other, there = load_i64(keys, child + 1), load_i64(positions, child + 1)
            if other > best or (other == best and there < where):
                child, best, where = child + 1, other, there
        if key > best or (key == best and position < where):
            break
        store_i64(keys, root, best)
        store_i64(positions, root, where)
        root = child
        child = 2 * root + 1
    store_i64(keys, root, key)
    store_i64(positions, root, position)


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the batches and classes."""
    any_overlap, key_at = _any_overlap(target), order_key("f32")
    lanes = target.f32_lanes
    half, zero, lowest = np.float32(0.5), np.float32(0), np.float32(-np.inf)

    @register_jitable
    def gather(scores: int, n: int, has_least: bool, least: float, keys: int, positions: int) -> int:
        """Put the boxes with a sufficient score into a heap; their number."""
        count = 0
        for i in range(n):
            score = load_f32(scores, i)
            if score > least or (not has_least and score == score):
                store_i64(keys, count, key_at(scores + 4 * i))
                store_i64(positions, count, i)
                count += 1
        for i in range(count // 2):
            root = count // 2 - 1 - i
            _sift(keys, positions, root, count, load_i64(keys, root), load_i64(positions, root))
        return count

    @register_jitable
    def select(boxes: int, centered: int, threshold: float, limit: int, keys: int, positions: int, count: int, rows: int,
               pitch: int, chosen: int) -> int:
        """Take boxes off the heap until ``limit`` are selected; their number."""
        held = 0
        while count > 0 and held < limit:
            position = load_i64(positions, 0)
            count -= 1
            _sift(keys, positions, 0, count, load_i64(keys, count), load_i64(positions, count))
            a, b = load_f32(boxes, 4 * position), load_f32(boxes, 4 * position + 1)
            c, d = load_f32(boxes, 4 * position + 2), load_f32(boxes, 4 * position + 3)
            if centered:
                y0, y1, x0, x1 = a - c * half, a + c * half, b - d * half, b + d * half
            else:
                y0, y1, x0, x1 = min(a, c), max(a, c), min(b, d), max(b, d)
            area = (y1 - y0) * (x1 - x0)
            overlaps = 0
            first = 0
            while first < held and not overlaps:
                overlaps = any_overlap(rows + first * 4, pitch, min(held - first, lanes), y0, x0, y1, x1, area, threshold)
                first += lanes
            if not overlaps:
                store_f32(rows, held, y0)
                store_f32(rows + pitch, held, x0)
                store_f32(rows + 2 * pitch, held, y1)
                store_f32(rows + 3 * pitch, held, x1)
                store_f32(rows + 4 * pitch, held, area)
                store_i64(chosen, held, position)
                held += 1
        return held

    def kernel(args: int, tid: int, nthreads: int) -> None:
        boxes, scores, most = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        overlap, score = load_i64(args, 3), load_i64(args, 4)
        batches, classes, n, places = load_i64(args, 5), load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        centered, chosen, counts = load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        scratch, share, sharers = load_i64(args, 12), load_i64(args, 13), min(nthreads, load_i64(args, 14))
        if tid >= sharers:
            return
        limit = min(places, load_i64(most, 0)) if most else 0
        threshold = load_f32(overlap, 0) if overlap else zero
        least = load_f32(score, 0) if score else lowest
        keys = scratch + tid * share
        positions, rows, pitch = keys + 8 * n, keys + 16 * n, 4 * places
        for unit in range(batches * classes * tid // sharers, batches * classes * (tid + 1) // sharers):
            image = boxes + unit // classes * n * 16
            held = 0
            if limit > 0:
                count = gather(scores + unit * n * 4, n, score != 0, least, keys, positions)
                held = select(image, centered, threshold, limit, keys, positions, count, rows, pitch,
                              chosen + unit * places * 8)
            store_i64(counts, unit, held)

    return kernel
