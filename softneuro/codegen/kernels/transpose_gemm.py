"""Transposed convolution, channels last: an indirect GEMM over the output pixels of each phase of the strides.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 offsets, 5 zero row, 6 residual, 7 lines, 8 number of lines, 9 tiles of a line,
10 depth, 11 filters, 12 panels, 13 groups, 14 images, 15 x bytes of an image, 16 y bytes of an image, 17 y bytes
between pixels of a line, 18 taps of a panel.
A *line* is the pixels of one phase in one output row: they have the same taps and lie at a constant distance.
lines: int64 [line][6]: pixels, taps, its first tap in a panel, and byte offsets into offsets, an image of x (which
may be negative) and an image of y. depth, filters and panels count one group.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.conventions import TRANSPOSE_LINE_WORDS
from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` pixels of a line by ``nv`` vectors of filters."""
    tile = gemm_tile(target, mr, nv, epilogue)
    panel_width = nv * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, zero, residual, lines = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        count, tiles, depth, filters = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        panels, groups, images = load_i64(args, 12), load_i64(args, 13), load_i64(args, 14)
        x_image, y_image, y_step = load_i64(args, 15), load_i64(args, 16), load_i64(args, 17)
        tap_bytes = depth * panel_width * 4
        panel_bytes = load_i64(args, 18) * tap_bytes
        last_panel = groups * panels - 1
        units = groups * panels * images * count * tiles
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            row = unit // tiles
            first = (unit - row * tiles) * mr
            part = row // count
            line = lines + (row - part * count) * TRANSPOSE_LINE_WORDS * 8
            pixels, taps = load_i64(line, 0), load_i64(line, 1)
            if first >= pixels:
                continue
            panel = part // images
            image = part - panel * images
            group = panel // panels
            column = (panel - group * panels) * panel_width
            own = load_i64(line, 2) * tap_bytes
            place = image * y_image + load_i64(line, 5) + first * y_step + (group * filters + column) * 4
            tile(taps, depth, x + image * x_image + load_i64(line, 4) + group * depth * 4, zero,
                 offsets + load_i64(line, 3) + first * taps * 4, weights + panel * panel_bytes + own,
                 weights + min(panel + 1, last_panel) * panel_bytes + own, bias + panel * panel_width * 4,
                 y + place, y_step, residual + place, min(mr, pixels - first), min(panel_width, filters - column), 0)

    return kernel
