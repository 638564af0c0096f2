"""Winograd convolution with 3 x 3 filters and stride 1, channels last: transform, multiply point by point, transform back.

The images are cut into tiles of m x m outputs, and the tiles into blocks whose transformed inputs V stay in the
second-level cache: [point][vector of channels][tile][lanes]. Weights are [panel][point][depth][nr] and read in that order;
the products M of one panel, [tile][point][nr], are transformed back before the next panel. Channels that do not fill
a vector, and outputs at the border of the image, go through a patch.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 zero pixel, 5 residual, 6 phases, 7 workers, 8 first block, 9 last block + 1,
10 blocks, 11 tiles, 12 tiles in an image, 13 tiles across, 14 height, 15 width, 16 output height, 17 output width, 18 pad
above, 19 pad left, 20 depth, 21 filters, 22 panels, 23 steps of depth in the last vector / UNROLL, 24 bytes from vector
to vector of V, 25 from point to point, 26 v, 27 m, 28 patch, 29 bytes of a thread's m, 30 of a thread's patch.
phases: 1 makes V of a block, the tiles split over the threads; 2 does the rest, the panels split; 3 does both, the blocks
split, each thread with a V of its own, one behind the other. Threads past ``workers`` have no memory and do nothing.
A patch holds 2 n * n addresses and then vectors: n * n, or 2 m * m of a panel's width.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors
from softneuro.codegen.winograd_matrices import TAPS
from softneuro.codegen.winograd_tile import LINE, UNROLL, most_rows, winograd_tile
from softneuro.codegen.winograd_transforms import copy_box, input_transform, locate_tile, output_transform, prefetch_box

__all__ = ["make"]


def make(target: Target, m: int, nv: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for F(m, 3) and panels of ``nv`` vectors of filters."""
    lanes = target.f32_lanes
    vector = 4 * lanes
    n = m + TAPS - 1
    points = n * n
    panel_width = nv * lanes
    panel_row = 4 * panel_width
    tile_of_m = points * panel_row + LINE
    lines = max(1, panel_row // LINE)
    rows_at_once = most_rows(target, nv)
    with_residual = ":" in epilogue
    f32 = vectors(target)
    store, load_n = f32.store, f32.load_n
    locate, transform, multiply = locate_tile(n), input_transform(target, m), winograd_tile(target, nv)
    finish, copy, prefetch = output_transform(target, m, nv, epilogue), copy_box(target), prefetch_box()

    def kernel(args: int, tid: int, nthreads: int) -> None:
        phases, workers = load_i64(args, 6), min(load_i64(args, 7), nthreads)
        if tid >= workers:
            return
        begin, end, blocks, tiles = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        per_image, across, depth = load_i64(args, 12), load_i64(args, 13), load_i64(args, 20)
        filters, rest_steps, v_block, v_point = load_i64(args, 21), load_i64(args, 23), load_i64(args, 24), load_i64(args, 25)
        v, products = load_i64(args, 26), load_i64(args, 27) + tid * load_i64(args, 29)
        addresses = load_i64(args, 28) + tid * load_i64(args, 30)
        patch_addresses = addresses + points * 8
        patch = patch_addresses + points * 8
        for k in range(points):
            store_i64(patch_addresses, k, patch + k * vector)
        whole = depth // lanes
        rest = depth - whole * lanes
        share, shares = tid, workers
        if phases == 3:
            v += tid * points * v_point
            begin, end = begin + (end - begin) * tid // workers, begin + (end - begin) * (tid + 1) // workers
            share, shares = 0, 1
        for block in range(begin, end):
            start = tiles * block // blocks
            count = tiles * (block + 1) // blocks - start
            if phases & 1:
                height, width, zero = load_i64(args, 14), load_i64(args, 15), load_i64(args, 4)
                pixel = 4 * depth
                for t in range(count * share // shares, count * (share + 1) // shares):
                    image = (start + t) // per_image
                    place = start + t - image * per_image
                    top = place // across * m - load_i64(args, 18)
                    left = place % across * m - load_i64(args, 19)
                    locate(load_i64(args, 0) + ((image * height + top) * width + left) * pixel, width * pixel, pixel,
                           top, left, height, width, zero, addresses)
                    if whole > 0:
                        transform(addresses, whole, v + t * vector, v_block, v_point)
                    if rest > 0:
                        for k in range(points):
                            store(patch + k * vector, load_n(load_i64(addresses, k) + whole * vector, rest))
                        transform(patch_addresses, 1, v + t * vector + whole * v_block, v_block, v_point)
            if phases & 2:
                height, width, panels = load_i64(args, 16), load_i64(args, 17), load_i64(args, 22)
                first, last = panels * share // shares, panels * (share + 1) // shares
                pixel = 4 * filters
                vectors_deep = (depth + lanes - 1) // lanes
                padded = (vectors_deep - 1) * lanes + rest_steps * UNROLL
                pieces = (count + rows_at_once - 1) // rows_at_once
                lines_ahead = (lines + pieces - 1) // pieces
                pf = load_i64(args, 31)
                following = min(end, block + 1)
                next_start = tiles * following // blocks
                next_units = (tiles * min(end, block + 2) // blocks - next_start) * m
                steps = (last - first) * points
                for panel in range(first, last):
                    for point in range(points):
                        if pf & 1:
                            for t in range(count * point // points, count * (point + 1) // points):
                                image = (start + t) // per_image
                                place = start + t - image * per_image
                                top, left = place // across * m, place % across * m
                                to = ((image * height + top) * width + left) * pixel + panel * panel_row
                                prefetch(load_i64(args, 1) + to, width * pixel, pixel, m, m, lines)
                                if with_residual:
                                    prefetch(load_i64(args, 5) + to, width * pixel, pixel, m, m, lines)
                        if pf & 2:
                            step = (panel - first) * points + point
                            for unit in range(next_units * step // steps, next_units * (step + 1) // steps):
                                t = next_start + unit // m
                                image = t // per_image
                                place = t - image * per_image
                                top, left = place // across * m + unit % m, place % across * m
                                to = ((image * load_i64(args, 14) + top) * load_i64(args, 15) + left) * depth * 4
                                prefetch(load_i64(args, 0) + to, 0, 0, 1, 1, depth * m // 16)
                        weights = load_i64(args, 2) + (panel * points + point) * padded * panel_row
                        ahead = weights + padded * panel_row
                        if panel + 1 == last and point + 1 == points:
                            ahead = load_i64(args, 2) + first * points * padded * panel_row
                        for piece in range(pieces):
                            low, high = count * piece // pieces, count * (piece + 1) // pieces
                            multiply(high - low, vectors_deep, rest_steps, v + point * v_point + low * vector, v_block,
                                     weights, products + low * tile_of_m + point * panel_row, tile_of_m, ahead,
                                     lines_ahead * LINE)
                            ahead += lines_ahead * padded * LINE
                            if (piece + 2) * lines_ahead > lines:
                                ahead -= lines_ahead * padded * LINE
                    column = panel * panel_width
                    columns = min(panel_width, filters - column)
                    bias = load_i64(args, 3) + column * 4
                    for t in range(count):
                        image = (start + t) // per_image
                        place = start + t - image * per_image
                        top, left = place // across * m, place % across * m
                        to = ((image * height + top) * width + left) * pixel + column * 4
                        y, residual = load_i64(args, 1) + to, load_i64(args, 5) + to
                        rows, pixels = min(m, height - top), min(m, width - left)
                        if rows == m and pixels == m and columns % lanes == 0:
                            finish(products + t * tile_of_m, columns // lanes, bias, y, width * pixel, pixel, residual)
                        else:
                            other = patch + m * m * panel_row
                            if with_residual:
                                copy(residual, width * pixel, pixel, other, m * panel_row, panel_row, rows, pixels, columns)
                            finish(products + t * tile_of_m, nv, bias, patch, m * panel_row, panel_row, other)
                            copy(patch, m * panel_row, panel_row, y, width * pixel, pixel, rows, pixels, columns)

    return kernel
