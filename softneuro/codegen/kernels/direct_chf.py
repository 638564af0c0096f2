"""Convolution, channels first: a few filters by a few vectors of output pixels, summed over a list of input places.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 offsets, 5 residual, 6 images, 7 groups, 8 filters, 9 steps, 10 rows,
11 columns, 12 x bytes of an image, 13 x bytes of a group, 14 x bytes of an output row, 15 weights first.
filters and steps (products summed for an output) count one group. offsets: int32 [steps], byte offset of each
step's input from that of the output's row and column. weights: float32 [group][filter tile][step][kt]; bias
likewise without steps. Consecutive columns of y read consecutive elements of x. weights first: whether the filter
tiles are the outer loop, for weights that are larger than the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, load_lanes, micro_kernel, splat_at
from softneuro.codegen.finish import store_finished
from softneuro.codegen.memory import load_i64
from softneuro.codegen.products import add_products
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, first_lanes
from softneuro.ops.epilogue import Epilogue

__all__ = ["make"]


def _tile(target: Target, kt: int, nv: int, masked: bool, epilogue: Epilogue) -> Any:
    """The intrinsic ``tile(x, offsets, steps, w, bias, y, plane, residual, rows, columns)``.

    plane: bytes from filter to filter in y and residual. rows: how many of the ``kt`` filters are stored. columns:
    how many of the nv * lanes pixels are read and stored when ``masked``; otherwise all are.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)

    def body(builder: Any, args: list[Any]) -> None:
        x, offsets, steps, w, bias, y, plane, residual, rows, columns = args
        masks = [first_lanes(builder, builder.sub(columns, I64(v * lanes)), lanes) if masked else None
                 for v in range(nv)]

        start = [splat_at(builder, byte_offset(builder, bias, 4 * i), lanes) for i in range(kt)]
        loop = CountedLoop(builder, steps, [byte_offset(builder, w, 0), *(value for value in start for _ in range(nv))])
        weights, *sums = loop.carried
        step = load_at(builder, byte_offset(builder, offsets, builder.shl(loop.index, I64(2))), I32)
        pixels = byte_offset(builder, x, builder.sext(step, I64))
        inputs = [load_lanes(builder, byte_offset(builder, pixels, 4 * lanes * v), vector, masks[v]) for v in range(nv)]
        factors = (byte_offset(builder, weights, 4 * i) for i in range(kt))
        sums = add_products(builder, target, factors, inputs, sums)
        loop.end([byte_offset(builder, weights, 4 * kt), *sums])
        for i in range(kt):
            with builder.if_then(builder.icmp_signed(">", rows, I64(i))):
                for v in range(nv):
                    place = builder.add(builder.mul(plane, I64(i)), I64(4 * lanes * v))
                    store_finished(builder, target, epilogue, loop.carried[1 + i * nv + v], y, residual, place, masks[v])

    return micro_kernel("direct_tile_part" if masked else "direct_tile", 10, body)


def make(target: Target, kt: int, nv: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``kt`` filters by ``nv`` vectors of pixels of one output row."""
    parsed = Epilogue.parse(epilogue)
    whole_tile, part_tile = (_tile(target, kt, nv, masked, parsed) for masked in (False, True))
    span = nv * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, bias = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        offsets, residual, images, groups = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        filters, steps, rows, columns = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10), load_i64(args, 11)
        x_image, x_group, x_row = load_i64(args, 12), load_i64(args, 13), load_i64(args, 14)
        weights_first = load_i64(args, 15)
        filter_tiles, across = (filters + kt - 1) // kt, (columns + span - 1) // span
        pixel_tiles = rows * across
        plane = rows * columns * 4
        units = images * groups * filter_tiles * pixel_tiles
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            pair = unit // (filter_tiles * pixel_tiles)
            rest = unit - pair * filter_tiles * pixel_tiles
            if weights_first:
                filter_tile = rest // pixel_tiles
                pixel_tile = rest - filter_tile * pixel_tiles
            else:
                pixel_tile = rest // filter_tiles
                filter_tile = rest - pixel_tile * filter_tiles
            image = pair // groups
            group = pair - image * groups
            row = pixel_tile // across
            column = (pixel_tile - row * across) * span
            panel = group * filter_tiles + filter_tile
            first = filter_tile * kt
            from_ = x + image * x_image + group * x_group + row * x_row + column * 4
            place = (pair * filters + first) * plane + (row * columns + column) * 4
            if column + span <= columns:
                whole_tile(from_, offsets, steps, weights + panel * steps * kt * 4, bias + panel * kt * 4, y + place,
                           plane, residual + place, min(kt, filters - first), span)
            else:
                part_tile(from_, offsets, steps, weights + panel * steps * kt * 4, bias + panel * kt * 4, y + place,
                          plane, residual + place, min(kt, filters - first), columns - column)

    return kernel
