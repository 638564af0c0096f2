"""Indirect GEMM: tiles of output pixels against panels of filters, input rows found through an offset table.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 offsets, 5 zero row, 6 residual, 7 pixels, 8 taps, 9 steps, 10 filters,
11 panels, 12 groups, 13 images, 14 x bytes of an image, 15 y bytes of an image, 16 y bytes of a pixel, 17 numbers.
steps (of a pixel's channels, see `Operands`), filters (elements) and panels count one group. numbers: of y and the
residual where they are kept as bytes (see `kept_as`).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.gemm_tile import gemm_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.operands import Operands
from softneuro.codegen.storage import STORED_BYTES
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, mr: int, nv: int, epilogue: str, found: str = "f32", weights: str = "f32",
         kept: str = "f32", odd: bool = False) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` pixels by ``nv`` vectors of filters.

    found, weights: what x and the weights are (see `Operands`). kept, odd: as in `gemm_tile`.

    Panels are the outer loop, so that each panel of weights is read once from memory while the pixels, which are
    warm, are read again; the next panel is prefetched meanwhile, spread over the first tiles of this one.
    """
    operands = Operands(target, found, weights)
    tile = gemm_tile(target, mr, nv, epilogue, operands, kept, odd)
    panel_width = nv * target.f32_lanes
    x_bytes, kept_bytes = operands.x_bytes, STORED_BYTES[kept]
    weight_bytes = operands.weight_bytes
    absent_bytes = STORED_BYTES[found] if odd else 0

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, panel_first, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, zero, residual = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        pixels, taps, steps, filters = load_i64(args, 7), load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        panels, groups, images = load_i64(args, 11), load_i64(args, 12), load_i64(args, 13)
        x_image, y_image, y_pixel = load_i64(args, 14), load_i64(args, 15), load_i64(args, 16)
        x_group = steps * x_bytes - absent_bytes
        tiles = (pixels + mr - 1) // mr
        panel_bytes = taps * steps * panel_width * weight_bytes
        last_panel = groups * panels - 1
        units = groups * panels * images * tiles
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            panel = unit // (images * tiles)
            rest = unit - panel * images * tiles
            image = rest // tiles
            tile_index = rest - image * tiles
            group = panel // panels
            column = (panel - group * panels) * panel_width
            following = panel_first + min(panel + 1, last_panel) * panel_bytes
            if rest < nv:
                following += rest * taps * steps * 64
            place = image * y_image + tile_index * mr * y_pixel + (group * filters + column) * kept_bytes
            tile(taps, steps, x + image * x_image + group * x_group, zero, offsets + tile_index * taps * mr * 4,
                 panel_first + panel * panel_bytes, following, bias + panel * panel_width * 4, y + place, y_pixel,
                 residual + place, min(mr, pixels - tile_index * mr), min(panel_width, filters - column),
                 load_i64(args, 17))

    return kernel
