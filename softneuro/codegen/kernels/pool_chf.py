"""Pooling with channels first, one output row at a time: along d and h into a padded row, then along w.

The padded rows lie in scratch memory with the pads filled once, so that the second step knows no borders. A few
rows are in flight, so that it does not wait for the stores of the first. The last vector of a row overlaps the one
before it.

Words: 0 x, 1 y, 2 planes (images x channels), 3-5 outputs along d h w, 6 x bytes of a plane, 7-8 x bytes of one step
along d h, 9-10 x bytes from tap to tap along d h, 11 width of x, 12 left pad, 13 floats of a padded row, 14 bytes
from tap to tap in the padded row, 15-16 windows along d h (see pool_chl), 17 factors of the output columns (float32,
a whole number of vectors), 18 scratch, 19 how many threads it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.conventions import POOL_ROWS
from softneuro.codegen.elementary import exact_maximum_value
from softneuro.codegen.emit import byte_offset, load_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, VectorType, build_intrinsic, vectors

__all__ = ["make"]

_WIDEST_SHUFFLE = 4


def make(target: Target, kind: str, stride: int, kernel_h: int, kernel_w: int) -> Callable[[int, int, int], None]:
    """The kernel of ``max`` or ``average`` for a window along h and w, and a stride along w."""
    v = vectors(target)
    lanes, store, splat = v.lanes, v.store, v.splat
    vector = VectorType(F32, lanes)
    is_average = kind == "average"
    combine = v.add if is_average else build_intrinsic(vector, [vector, vector], lambda b, a: exact_maximum_value(b, *a))
    neutral = 0.0 if is_average else -math.inf
    down = _down(target, combine, neutral, is_average, kernel_h)
    along = _along(target, combine, is_average, kernel_w, stride)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, planes = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        out_d, out_h, out_w = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5)
        plane_bytes, step_d, step_h = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        width, pad, row_floats, tap_w = load_i64(args, 11), load_i64(args, 12), load_i64(args, 13), load_i64(args, 14)
        windows_d, windows_h = load_i64(args, 15), load_i64(args, 16)
        row_bytes = row_floats * 4
        rows = load_i64(args, 18) + tid * POOL_ROWS * row_bytes
        threads = min(nthreads, load_i64(args, 19))
        units = planes * out_d * out_h if tid < threads else 0
        for i in range(0, POOL_ROWS * row_floats, lanes):
            if units > 0:
                store(rows + i * 4, splat(neutral))
        end = units * (tid + 1) // threads
        unit = units * tid // threads
        slab = unit // out_h
        h = unit - slab * out_h
        plane = slab // out_d
        d = slab - plane * out_d
        while unit < end:
            last = min(unit + POOL_ROWS, end)
            for each in range(last - unit):
                at_d, at_h = windows_d + d * 24, windows_h + h * 24
                down(x + plane * plane_bytes + load_i64(at_d, 0) * step_d + load_i64(at_h, 0) * step_h,
                     rows + each * row_bytes + pad * 4, width, load_i64(at_d, 1), load_i64(at_h, 1), load_i64(args, 9),
                     load_i64(args, 10), 1.0 / (load_i64(at_d, 2) * load_i64(at_h, 2)))
                h += 1
                if h == out_h:
                    h = 0
                    d += 1
                    if d == out_d:
                        d = 0
                        plane += 1
            for each in range(last - unit):
                along(rows + each * row_bytes, y + (unit + each) * out_w * 4, out_w, tap_w, load_i64(args, 17))
            unit = last

    return kernel


def _down(target: Target, combine: Any, neutral: float, is_average: bool, kernel_h: int) -> Any:
    """The function ``down(source, row, width, taps_d, taps_h, tap_d, tap_h, factor)``: taps along d and h to a row."""
    v = vectors(target)
    lanes, load, load_n, store, store_n, splat, mul = v.lanes, v.load, v.load_n, v.store, v.store_n, v.splat, v.mul

    @register_jitable
    def down(source: int, row: int, width: int, taps_d: int, taps_h: int, tap_d: int, tap_h: int, factor: float) -> None:
        if width < lanes:
            total = splat(neutral)
            for kd in range(taps_d):
                for kh in range(taps_h):
                    total = combine(total, load_n(source + kd * tap_d + kh * tap_h, width))
            store_n(row, mul(total, splat(factor)) if is_average else total, width)
        elif taps_d == 1 and taps_h == kernel_h:
            for start in range(0, width, lanes):
                i = min(start, width - lanes)
                total = load(source + i * 4)
                for kh in range(1, kernel_h):
                    total = combine(total, load(source + kh * tap_h + i * 4))
                store(row + i * 4, mul(total, splat(factor)) if is_average else total)
        else:
            for start in range(0, width, lanes):
                i = min(start, width - lanes)
                total = splat(neutral)
                for kd in range(taps_d):
                    for kh in range(taps_h):
                        total = combine(total, load(source + kd * tap_d + kh * tap_h + i * 4))
                store(row + i * 4, mul(total, splat(factor)) if is_average else total)

    return down


def _along(target: Target, combine: Any, is_average: bool, kernel_w: int, stride: int) -> Any:
    """The function ``along(row, place, out_w, tap_w, factors)``: taps along w of a padded row to an output row."""
    v = vectors(target)
    lanes, load, store, store_n, mul = v.lanes, v.load, v.store, v.store_n, v.mul
    load_strided = _strided_load(lanes, stride)

    @register_jitable
    def along(row: int, place: int, out_w: int, tap_w: int, factors: int) -> None:
        for start in range(0, out_w, lanes):
            i = max(0, min(start, out_w - lanes))
            total = load_strided(row + i * stride * 4)
            for kw in range(1, kernel_w):
                total = combine(total, load_strided(row + i * stride * 4 + kw * tap_w))
            if is_average:
                total = mul(total, load(factors + i * 4))
            if out_w < lanes:
                store_n(place, total, out_w)
            else:
                store(place + i * 4, total)

    return along


def _strided_load(lanes: int, stride: int) -> Any:
    """An intrinsic: the vector of every ``stride``-th float from an address, reading stride x lanes floats."""

    def generate(builder: Any, arguments: list[Any]) -> Any:
        pointer = byte_offset(builder, arguments[0], 0)
        if stride <= _WIDEST_SHUFFLE:
            wide = load_at(builder, pointer, ir.VectorType(F32, lanes * stride))
            chosen = ir.Constant(ir.VectorType(I32, lanes), [lane * stride for lane in range(lanes)])
            return builder.shuffle_vector(wide, ir.Constant(wide.type, ir.Undefined), chosen)
        result = ir.Constant(ir.VectorType(F32, lanes), ir.Undefined)
        for lane in range(lanes):
            scalar = load_at(builder, byte_offset(builder, pointer, 4 * stride * lane), F32)
            result = builder.insert_element(result, scalar, I32(lane))
        return result

    return build_intrinsic(VectorType(F32, lanes), [types.int64], generate)
