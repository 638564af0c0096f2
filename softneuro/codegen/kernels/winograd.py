"""Winograd convolution with 3 x 3 filters and stride 1, channels last.

The images are cut into tiles of m x m outputs, and the tiles into blocks whose transformed inputs V stay in the
second-level cache: [point][vector of channels][tile][lanes]. Weights are [panel][point][depth][nr] and read in that
order; the products M of one panel, [tile][point][nr], are transformed back before the next panel. Channels that do
not fill a vector, and outputs at the border of the image, go through a patch. While a panel is multiplied, the next
weights, the panel's outputs and the next block's inputs are prefetched, a little at every point.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 zero pixel, 5 residual, 6 tile table, 7 phases, 8 workers, 9 first block,
10 last block + 1, 11 blocks, 12 tiles, 13 height, 14 width, 15 output width, 16 depth, 17 filters, 18 panels,
19 steps of depth in the last vector / WINOGRAD_UNROLL, 20 bytes from vector to vector of V, 21 from point to point, 22 v,
23 m, 24 patch, 25 bytes of a thread's m, 26 of a thread's patch.
Tile table: int64 [tile][6]: byte offset of its first input pixel in x (which may lie outside the image), row and
column of that pixel, byte offset of its first output pixel in y, how many rows and columns of its outputs exist.
phases: 1 makes V of a block, the tiles split over the threads; 2 does the rest, the panels split; 3 does both, the
blocks split, each thread with a V of its own, one behind the other. Threads past ``workers`` have no memory and do
nothing. A patch holds 2 n * n addresses and then vectors: n * n, or 2 m * m of a panel's width.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.conventions import CACHE_LINE, WINOGRAD_UNROLL
from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors
from softneuro.codegen.winograd_matrices import TAPS
from softneuro.codegen.winograd_moves import copy_box, locate_tile, prefetch_box
from softneuro.codegen.winograd_tile import line_bytes, most_rows, winograd_tile
from softneuro.codegen.winograd_transforms import input_transform, output_transform

__all__ = ["make"]


def make(target: Target, m: int, nv: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for F(m, 3) and panels of ``nv`` vectors of filters."""
    lanes, vector = target.f32_lanes, 4 * target.f32_lanes
    n = m + TAPS - 1
    points = n * n
    panel_width, panel_row = nv * lanes, nv * vector
    line = line_bytes(target, nv)
    lines = panel_row // line
    tile_of_m = points * panel_row + CACHE_LINE
    rows_at_once = most_rows(target, nv)
    with_residual = ":" in epilogue
    store, load_n = vectors(target).store, vectors(target).load_n
    locate, transform, multiply = locate_tile(n), input_transform(target, m), winograd_tile(target, nv)
    finish, copy, prefetch = output_transform(target, m, nv, epilogue), copy_box(target), prefetch_box()

    def kernel(args: int, tid: int, nthreads: int) -> None:
        phases, workers = load_i64(args, 7), min(load_i64(args, 8), nthreads)
        if tid >= workers:
            return
        begin, end = load_i64(args, 9), load_i64(args, 10)
        blocks, tiles = load_i64(args, 11), load_i64(args, 12)
        x, height, width, depth = load_i64(args, 0), load_i64(args, 13), load_i64(args, 14), load_i64(args, 16)
        x_pixel, y_pixel = 4 * depth, 4 * load_i64(args, 17)
        x_row, y_row = width * x_pixel, load_i64(args, 15) * y_pixel
        rest_steps, v_block, v_point = load_i64(args, 19), load_i64(args, 20), load_i64(args, 21)
        v, products = load_i64(args, 22), load_i64(args, 23) + tid * load_i64(args, 25)
        addresses = load_i64(args, 24) + tid * load_i64(args, 26)
        patch_addresses, patch = addresses + 8 * points, addresses + 16 * points
        for k in range(points):
            store_i64(patch_addresses, k, patch + k * vector)
        whole = depth // lanes
        rest = depth - whole * lanes
        piece_bytes = (depth + -depth % WINOGRAD_UNROLL) * panel_row
        share, shares = tid, workers
        if phases == 3:
            v += tid * points * v_point
            begin, end = begin + (end - begin) * tid // workers, begin + (end - begin) * (tid + 1) // workers
            share, shares = 0, 1
        first, last = load_i64(args, 18) * share // shares, load_i64(args, 18) * (share + 1) // shares
        for block in range(begin, end):
            start, stop = tiles * block // blocks, tiles * (block + 1) // blocks
            count = stop - start
            table = load_i64(args, 6) + 48 * start
            if phases & 1:
                for t in range(count * share // shares, count * (share + 1) // shares):
                    tile = table + 48 * t
                    locate(x + load_i64(tile, 0), x_row, x_pixel, load_i64(tile, 1), load_i64(tile, 2), height,
                           width, load_i64(args, 4), addresses)
                    if whole > 0:
                        transform(addresses, whole, v + t * vector, v_block, v_point)
                    if rest > 0:
                        for k in range(points):
                            store(patch + k * vector, load_n(load_i64(addresses, k) + whole * vector, rest))
                        transform(patch_addresses, 1, v + t * vector + whole * v_block, v_block, v_point)
            if phases & 2:
                pieces = (count + rows_at_once - 1) // rows_at_once
                lines_ahead = (lines + pieces - 1) // pieces
                steps = (last - first) * points
                rows_to_come = (tiles * min(end, block + 2) // blocks - stop) * m if block + 1 < end else 0
                for step in range(steps):
                    panel = first + step // points
                    point = step - step // points * points
                    to = load_i64(args, 1) + panel * panel_row
                    residual = load_i64(args, 5) + panel * panel_row
                    for t in range(count * point // points, count * (point + 1) // points):
                        offset = load_i64(table, 6 * t + 3)
                        prefetch(to + offset, y_row, y_pixel, m, m, lines)
                        if with_residual:
                            prefetch(residual + offset, y_row, y_pixel, m, m, lines)
                    for row in range(rows_to_come * step // steps, rows_to_come * (step + 1) // steps):
                        tile = table + 48 * (count + row // m)
                        offset = load_i64(tile, 0) + (row % m + 1) * x_row + x_pixel
                        prefetch(x + offset, 0, x_pixel, 1, m, (x_pixel + 63) // 64)
                    weights = load_i64(args, 2) + (first * points + step) * piece_bytes
                    ahead = weights + piece_bytes
                    if step + 1 == steps:
                        ahead -= steps * piece_bytes
                    for piece in range(pieces):
                        low, high = count * piece // pieces, count * (piece + 1) // pieces
                        multiply(high - low, whole + (rest > 0), rest_steps, v + point * v_point + low * vector,
                                 v_block, weights, products + low * tile_of_m + point * panel_row, tile_of_m, ahead,
                                 lines_ahead * line)
                        if (piece + 2) * lines_ahead <= lines:
                            ahead += lines_ahead * (piece_bytes // lines)
                    if point + 1 < points:
                        continue
                    columns = min(panel_width, load_i64(args, 17) - panel * panel_width)
                    bias = load_i64(args, 3) + panel * panel_row
                    for t in range(count):
                        tile = table + 48 * t
                        offset, rows, pixels = load_i64(tile, 3), load_i64(tile, 4), load_i64(tile, 5)
                        if rows == m and pixels == m and columns % lanes == 0:
                            finish(products + t * tile_of_m, columns // lanes, bias, to + offset, y_row, y_pixel,
                                   residual + offset)
                        else:
                            other = patch + m * m * panel_row
                            if with_residual:
                                copy(residual + offset, y_row, y_pixel, other, m * panel_row, panel_row, rows,
                                     pixels, columns)
                            finish(products + t * tile_of_m, nv, bias, patch, m * panel_row, panel_row, other)
                            copy(patch, m * panel_row, panel_row, to + offset, y_row, y_pixel, rows, pixels,
                                 columns)

    return kernel
