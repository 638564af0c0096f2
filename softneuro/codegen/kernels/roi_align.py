"""Regions of channels-last float32 pictures sampled to bins.

Words: 0 x, 1 regions (float32 [n][4]: left, top, right, bottom), 2 picture of each region, 3 y, 4 regions n, 5 pictures,
6 channels, 7 height, 8 width, 9 bins down, 10 bins across, 11 samples along an axis of a bin (0: as many as it is
pixels long), 12 scale (float32 bits), 13 most samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from softneuro.codegen.memory import load_f32, load_i32, load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@register_jitable
def _count(step: float, given: int, most: int) -> int:
    """Samples along an axis of a bin that is ``step`` pixels long."""
    if given:
        return given
    if not step > _ZERO:
        return 0
    if step >= np.float32(most):
        return most
    whole = int(step)
    return whole + 1 if np.float32(whole) < step else whole


def make(target: Target, largest: bool, half_pixel: bool, wide: bool) -> Callable[[int, int, int], None]:
    """For int64 picture numbers when ``wide``, else int32. Threads share the bins of all regions.

    Numbers of pictures that do not exist become the nearest that does: nothing else is read.
    """
    v = vectors(target)
    load_n, store_n, splat, maximum = v.load_n, v.store_n, v.splat, v.maximum
    add, fma, mul, div = v.add, v.fma, v.mul, v.div
    lanes = v.lanes
    offset = _HALF if half_pixel else _ZERO

    @register_jitable
    def extent(start: Any, end: Any) -> Any:
        return end - start if half_pixel or end - start > _ONE else _ONE

    @register_jitable
    def sample(image: int, y: Any, x: Any, height: int, width: int, channels: int, to: int, is_first: bool) -> None:
        """Join one sample of all channels to the bin."""
        inside = y >= -_ONE and y <= np.float32(height) and x >= -_ONE and x <= np.float32(width)
        y = min(max(y, _ZERO), np.float32(height - 1)) if inside else _ZERO
        x = min(max(x, _ZERO), np.float32(width - 1)) if inside else _ZERO
        top, left = int(y), int(x)
        low, right = min(top + 1, height - 1), min(left + 1, width - 1)
        down, across = y - np.float32(top), x - np.float32(left)
        p, q = splat((_ONE - down) * (_ONE - across)), splat((_ONE - down) * across)
        r, s = splat(down * (_ONE - across)), splat(down * across)
        for i in range(0, channels, lanes):
            n = min(lanes, channels - i)
            total = splat(_ZERO)
            if inside:
                a = load_n(image + ((top * width + left) * channels + i) * 4, n)
                b = load_n(image + ((top * width + right) * channels + i) * 4, n)
                c = load_n(image + ((low * width + left) * channels + i) * 4, n)
                d = load_n(image + ((low * width + right) * channels + i) * 4, n)
                if largest:
                    total = maximum(maximum(mul(p, a), mul(q, b)), maximum(mul(r, c), mul(s, d)))
                else:
                    total = fma(p, a, fma(q, b, fma(r, c, mul(s, d))))
            if not is_first:
                held = load_n(to + i * 4, n)
                total = maximum(held, total) if largest else add(held, total)
            store_n(to + i * 4, total, n)

    @register_jitable
    def finish(to: int, channels: int, count: int) -> None:
        """The sum made a mean; without samples, zeros."""
        divisor = splat(np.float32(max(1, count)))
        for i in range(0, channels, lanes):
            n = min(lanes, channels - i)
            if count == 0:
                store_n(to + i * 4, splat(_ZERO), n)
            elif not largest:
                store_n(to + i * 4, div(load_n(to + i * 4, n), divisor), n)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, regions, numbers, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        n, pictures, channels = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        height, width, bins_down, bins_across = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        given, scale, most = load_i64(args, 11), load_f32(args + 96, 0), load_i64(args, 13)
        bins = bins_down * bins_across
        for unit in range(n * bins * tid // nthreads, n * bins * (tid + 1) // nthreads):
            region = unit // bins
            row = (unit - region * bins) // bins_across
            column = unit - region * bins - row * bins_across
            picture = load_i64(numbers, region) if wide else load_i32(numbers, region)
            image = source + min(max(picture, 0), pictures - 1) * height * width * channels * 4
            left, top = load_f32(regions, 4 * region) * scale - offset, load_f32(regions, 4 * region + 1) * scale - offset
            right, bottom = load_f32(regions, 4 * region + 2) * scale - offset, load_f32(regions, 4 * region + 3) * scale - offset
            down, across = extent(top, bottom) / np.float32(bins_down), extent(left, right) / np.float32(bins_across)
            rows, columns = _count(down, given, most), _count(across, given, most)
            to = destination + unit * channels * 4
            for i in range(rows):
                y = top + np.float32(row) * down + (np.float32(i) + _HALF) * down / np.float32(rows)
                for j in range(columns):
                    x = left + np.float32(column) * across + (np.float32(j) + _HALF) * across / np.float32(columns)
                    sample(image, y, x, height, width, channels, to, i == 0 and j == 0)
            finish(to, channels, rows * columns)

    return kernel
