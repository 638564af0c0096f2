"""Pictures read at places that a grid gives, float32, in either layout.

Words: 0 x, 1 grid (float32 [picture][place][x, y]), 2 y, 3 pictures, 4 channels, 5 height, 6 width (both at least 1),
7 places of a picture, 8 scratch, 9 its bytes for a thread, 10 threads that have some, 11 places of a block.

A thread takes blocks of places: first the pixels (int64, -1 outside) and weights (float32) of all taps, into its
scratch, then all channels of the block. After them, scratch holds the taps of one place's two axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from softneuro.codegen.memory import load_f32, load_i64, store_f32, store_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]

Kernel = Callable[[int, int, int], None]
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_FARTHEST = np.float32(2.0**24)
_CUBIC = np.float32(-0.75)
_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_THREE, _FOUR, _FIVE, _EIGHT = np.float32(3), np.float32(4), np.float32(5), np.float32(8)


@register_jitable
def _floor(value: float) -> int:
    """The largest integer that is not above a float32 of at most 2**24 in magnitude."""
    whole = int(value)
    return whole - 1 if np.float32(whole) > value else whole


@register_jitable
def _near(t: Any) -> Any:
    """The cubic kernel at distances up to 1."""
    return ((_CUBIC + _TWO) * t - (_CUBIC + _THREE)) * t * t + _ONE


@register_jitable
def _far(t: Any) -> Any:
    """The cubic kernel at distances from 1 to 2."""
    return ((_CUBIC * t - _FIVE * _CUBIC) * t + _EIGHT * _CUBIC) * t - _FOUR * _CUBIC


@register_jitable
def _reflected(position: Any, low: Any, high: Any) -> Any:
    """A position folded into the range from low to high."""
    span = high - low
    if span <= _ZERO:
        return low
    distance = abs(position - low)
    folds = _floor(distance / span)
    rest = distance - np.float32(folds) * span
    return low + rest if folds % 2 == 0 else high - rest


def _inside(padding: str, align: bool) -> Any:
    """inside(pixel, size): the number of a pixel that exists, or -1 for a place that is zero."""

    @register_jitable
    def inside(pixel: int, size: int) -> int:
        if padding == "zeros":
            return pixel if 0 <= pixel < size else -1
        if padding == "border":
            return min(max(pixel, 0), size - 1)
        if align:
            period = max(1, 2 * (size - 1))
            folded = abs(pixel) % period
            return period - folded if folded >= size else folded
        folded = (-1 - pixel if pixel < 0 else pixel) % (2 * size)
        return 2 * size - 1 - folded if folded >= size else folded

    return inside


def _axis(mode: str, padding: str, align: bool) -> Any:
    """axis(coordinate, size, pixels, weights): store the taps along one axis."""
    inside = _inside(padding, align)
    linear, cubic = mode == "linear", mode == "cubic"
    border, reflection = padding == "border" and not cubic, padding == "reflection" and not cubic

    @register_jitable
    def axis(coordinate: float, size: int, pixels: int, weights: int) -> None:
        extent = np.float32(size)
        if align:
            position, low, high = (coordinate + _ONE) * _HALF * (extent - _ONE), _ZERO, extent - _ONE
        else:
            position, low, high = ((coordinate + _ONE) * extent - _ONE) * _HALF, -_HALF, extent - _HALF
        position = min(position, _FARTHEST) if position > -_FARTHEST else -_FARTHEST  # NaN too
        if border:
            position = min(max(position, _ZERO), extent - _ONE)
        if reflection and (position < low or position > high):
            position = _reflected(position, low, high)
        first = _floor(position)
        part = position - np.float32(first)
        if linear:
            store_i64(pixels, 0, inside(first, size))
            store_i64(pixels, 1, inside(first + 1, size))
            store_f32(weights, 0, _ONE - part)
            store_f32(weights, 1, part)
        elif cubic:
            for i in range(4):
                store_i64(pixels, i, inside(first - 1 + i, size))
            store_f32(weights, 0, _far(part + _ONE))
            store_f32(weights, 1, _near(part))
            store_f32(weights, 2, _near(_ONE - part))
            store_f32(weights, 3, _far(_TWO - part))
        else:  # halves to the even neighbour
            up = part > _HALF or (part == _HALF and first % 2 != 0)
            store_i64(pixels, 0, inside(first + 1 if up else first, size))
            store_f32(weights, 0, _ONE)

    return axis


def make(target: Target, mode: str, padding: str, align: bool, last: bool) -> Kernel:
    """For channels last, or channels first. Threads share the blocks of all pictures."""
    taps = _TAPS[mode]
    both = taps * taps
    axis = _axis(mode, padding, align)
    v = vectors(target)
    load, store, load_n, store_n, splat, fma, lanes = v.load, v.store, v.load_n, v.store_n, v.splat, v.fma, v.lanes

    @register_jitable
    def prepare(grid: int, count: int, height: int, width: int, pixels: int, weights: int, own: int) -> None:
        """The taps of a block of places."""
        for place in range(count):
            axis(load_f32(grid, 2 * place + 1), height, own, own + 64)
            axis(load_f32(grid, 2 * place), width, own + 32, own + 80)
            for i in range(taps):
                for j in range(taps):
                    row, column = load_i64(own, i), load_i64(own + 32, j)
                    at = place * both + i * taps + j
                    store_i64(pixels, at, row * width + column if row >= 0 and column >= 0 else -1)
                    store_f32(weights, at, load_f32(own + 64, i) * load_f32(own + 80, j))

    @register_jitable
    def by_channels(x: int, y: int, count: int, channels: int, pixels: int, weights: int) -> None:
        """All channels of each place of a block, channels last."""
        whole = channels // lanes * lanes
        for place in range(count):
            to = y + place * channels * 4
            for i in range(0, whole, lanes):
                total = splat(_ZERO)
                for t in range(place * both, place * both + both):
                    pixel = load_i64(pixels, t)
                    if pixel >= 0:
                        total = fma(splat(load_f32(weights, t)), load(x + (pixel * channels + i) * 4), total)
                store(to + i * 4, total)
            if whole < channels:
                total = splat(_ZERO)
                for t in range(place * both, place * both + both):
                    pixel = load_i64(pixels, t)
                    if pixel >= 0:
                        part = load_n(x + (pixel * channels + whole) * 4, channels - whole)
                        total = fma(splat(load_f32(weights, t)), part, total)
                store_n(to + whole * 4, total, channels - whole)

    @register_jitable
    def by_places(x: int, y: int, count: int, channels: int, pitch: int, apart: int, pixels: int, weights: int) -> None:
        """All places of a block for each channel, channels first: planes ``pitch`` bytes apart in x, ``apart`` in y."""
        for channel in range(channels):
            plane, to = x + channel * pitch, y + channel * apart
            for place in range(count):
                total = _ZERO
                for t in range(place * both, place * both + both):
                    pixel = load_i64(pixels, t)
                    if pixel >= 0:
                        total += load_f32(weights, t) * load_f32(plane, pixel)
                store_f32(to, place, total)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, grid, y = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        pictures, channels, height, width = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        places, scratch, share = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9)
        sharers, block = min(nthreads, load_i64(args, 10)), load_i64(args, 11)
        if tid >= sharers:
            return
        pixels = scratch + tid * share
        weights = pixels + block * both * 8
        own = weights + block * both * 4
        blocks = (places + block - 1) // block
        for unit in range(pictures * blocks * tid // sharers, pictures * blocks * (tid + 1) // sharers):
            picture = unit // blocks
            first = (unit - picture * blocks) * block
            count = min(block, places - first)
            prepare(grid + (picture * places + first) * 8, count, height, width, pixels, weights, own)
            from_ = x + picture * channels * height * width * 4
            if last:
                by_channels(from_, y + (picture * places + first) * channels * 4, count, channels, pixels, weights)
            else:
                to = y + (picture * channels * places + first) * 4
                by_places(from_, to, count, channels, height * width * 4, places * 4, pixels, weights)

    return kernel
