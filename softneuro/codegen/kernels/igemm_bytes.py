"""Indirect GEMM of bytes: tiles of output pixels against panels of filters, input rows found through an offset table.

Words: 0 x, 1 y, 2 weights, 3 columns, 4 offsets, 5 a row of the input's zero point, 6 residual, 7 numbers, 8 pixels, 9 taps,
10 steps, 11 where the last step of a row begins, 12 channels, 13 filters, 14 panels, 15 groups, 16 images, 17 x bytes of an
image, 18 y elements of an image, 19 y elements of a pixel. steps, channels, filters and panels count one group.
weights, columns, numbers: see `byte_panels`.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.byte_panels import COLUMN_NUMBERS, step_bytes
from softneuro.codegen.byte_tile import byte_tile
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.integer_forms import integer_form
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str, kept: str, rest: int) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` pixels by ``nv`` vectors of filters; kept and rest as in `byte_tile`.

    Panels are the outer loop, so that each panel of weights is read once from memory while the pixels, which are
    warm, are read again; the next panel is prefetched meanwhile, spread over the first tiles of this one.
    """
    tile = byte_tile(target, mr, nv, epilogue, kept, rest)
    width, size = nv * target.f32_lanes, STORED_BYTES[kept]
    line_bytes = width * step_bytes(integer_form(target))

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, columns = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, zero, residual, numbers = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        pixels, taps, steps, last = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        channels, filters, panels = load_i64(args, 12), load_i64(args, 13), load_i64(args, 14)
        groups, images = load_i64(args, 15), load_i64(args, 16)
        x_image, y_image, y_pixel = load_i64(args, 17), load_i64(args, 18), load_i64(args, 19)
        tiles = (pixels + mr - 1) // mr
        panel_bytes = taps * steps * line_bytes
        last_panel = groups * panels - 1
        units = groups * panels * images * tiles
        begin, end = units * tid // nthreads, units * (tid + 1) // nthreads
        panel = begin // (images * tiles)
        image = begin // tiles - panel * images
        index = begin % tiles
        for _ in range(begin, end):
            group = panel // panels
            column = (panel - group * panels) * width
            following = weights + min(panel + 1, last_panel) * panel_bytes
            if image == 0 and index * CACHE_LINE < line_bytes:
                following += index * taps * steps * CACHE_LINE
            place = (image * y_image + index * mr * y_pixel + group * filters + column) * size
            tile(taps, steps, last, x + image * x_image + group * channels, zero, offsets + index * taps * mr * 4,
                 weights + panel * panel_bytes, following, columns + panel * COLUMN_NUMBERS * width * 4, y + place,
                 y_pixel * size, residual + place, min(mr, pixels - index * mr), min(width, filters - column), numbers)
            index += 1
            if index == tiles:
                index = 0
                image += 1
                if image == images:
                    image = 0
                    panel += 1

    return kernel
