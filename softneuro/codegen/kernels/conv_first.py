"""The first convolution of a network: reads channels first, writes channels last.

A few rows of output at a time: the input rows they need are copied, with their padding, into a small buffer
[channel][row][column]. There a pixel's kernel rows are contiguous and its neighbour lies one stride further, so the
matrix-product tile reads them in place, each kernel row of each channel being one of its taps.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 offsets, 5 residual, 6 buffer, 7 bytes of a thread's buffer, 8 workers,
9 images, 10 channels, 11 height, 12 width, 13 kernel rows of all channels, 14 kernel columns, 15 row stride,
16 column stride, 17 pad above, 18 pad left, 19 output height, 20 output width, 21 filters, 22 panels, 23 output rows
at a time, 24 output columns at a time, 25 bytes of a buffer row, 26 buffer rows of a channel, 27 input rows that a
kernel spans, 28 numbers of y and the residual where they are kept as bytes (see `kept_as`). Threads past ``workers``
have no buffer and do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import register_jitable

from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str, kept: str = "f32") -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` neighbouring pixels by ``nv`` vectors of filters; ``kept``: what y and the residual are."""
    tile, write = gemm_tile(target, mr, nv, epilogue, kept=kept), _padded_copy(target)
    panel_width = nv * target.f32_lanes
    kept_bytes = STORED_BYTES[kept]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        workers = min(load_i64(args, 8), nthreads)
        if tid >= workers:
            return
        buffer = load_i64(args, 6) + tid * load_i64(args, 7)
        channels, height, width = load_i64(args, 10), load_i64(args, 11), load_i64(args, 12)
        taps, depth, row_stride = load_i64(args, 13), load_i64(args, 14), load_i64(args, 15)
        pixel_step = 4 * load_i64(args, 16)
        out_height, out_width, filters = load_i64(args, 19), load_i64(args, 20), load_i64(args, 21)
        rows_at_once, columns_at_once = load_i64(args, 23), load_i64(args, 24)
        buffer_row, channel_rows = load_i64(args, 25), load_i64(args, 26)
        panel_bytes = 4 * taps * depth * panel_width
        down = (out_height + rows_at_once - 1) // rows_at_once
        across = (out_width + columns_at_once - 1) // columns_at_once
        units = load_i64(args, 9) * down * across
        for unit in range(units * tid // workers, units * (tid + 1) // workers):
            image = unit // (down * across)
            top = (unit // across - image * down) * rows_at_once
            left = unit % across * columns_at_once
            rows, columns = min(rows_at_once, out_height - top), min(columns_at_once, out_width - left)
            first_row = top * row_stride - load_i64(args, 17)
            first_column = left * load_i64(args, 16) - load_i64(args, 18)
            for channel in range(channels):
                for row in range((rows - 1) * row_stride + load_i64(args, 27)):
                    here = first_row + row
                    inside = here >= 0 and here < height
                    source = load_i64(args, 0) + ((image * channels + channel) * height + here) * width * 4
                    write(buffer + (channel * channel_rows + row) * buffer_row, buffer_row, source,
                          width if inside else 0, first_column)
            for panel in range(load_i64(args, 22)):
                weights = load_i64(args, 2) + panel * panel_bytes
                for row in range(rows):
                    for column in range(0, columns, mr):
                        place = (((image * out_height + top + row) * out_width + left + column) * filters
                                 + panel * panel_width) * kept_bytes
                        pixel = buffer + row * row_stride * buffer_row + column * pixel_step
                        tile(taps, depth, pixel, buffer, load_i64(args, 4), weights, weights,
                             load_i64(args, 3) + panel * panel_width * 4, load_i64(args, 1) + place, filters * kept_bytes,
                             load_i64(args, 5) + place, min(mr, columns - column),
                             min(panel_width, filters - panel * panel_width), load_i64(args, 28))

    return kernel


def _padded_copy(target: Target) -> Any:
    """The function ``write(into, nbytes, row, width, first)``: ``nbytes`` (whole vectors) of a row of ``width`` floats,
    from column ``first`` on (which may be negative), with zeros beside the row. A width of 0 gives zeros."""
    f32 = vectors(target)
    load, store, load_n, store_n, lanes = f32.load, f32.store, f32.load_n, f32.store_n, f32.lanes

    @register_jitable
    def write(into: int, nbytes: int, row: int, width: int, first: int) -> None:
        before, source = max(0, -first), row + max(0, first) * 4
        there = max(0, min(width - max(0, first), nbytes // 4 - before))
        if there < nbytes // 4:
            for k in range(0, nbytes, 4 * lanes):
                store(into + k, load_n(into, 0))
        for k in range(0, there - lanes + 1, lanes):
            store(into + (before + k) * 4, load(source + k * 4))
        rest = there % lanes
        store_n(into + (before + there - rest) * 4, load_n(source + (there - rest) * 4, rest), rest)

    return write
