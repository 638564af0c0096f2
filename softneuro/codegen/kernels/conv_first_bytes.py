"""The first convolution of a quantised network: reads float32 channels first, or bytes, and multiplies bytes.

Some rows of output at a time: the input rows they need become bytes, with the input's zero point beside them, in a small
buffer [row][column][channel]. There a kernel row under a pixel is contiguous, one tap of the matrix-product tile, and
the next pixel's lies ``column step`` bytes further.

Words: 0 x, 1 y, 2 weights, 3 columns, 4 offsets (int32 [taps][mr]), 5 residual, 6 numbers, 7 input numbers (float32 scale and
zero point), 8 buffer, 9 bytes of a thread's buffer, 10 workers, 11 images, 12 height, 13 width, 14 kernel rows, 15 steps,
16 row stride, 17 column step, 18 pad above, 19 pad left, 20 output height, 21 output width, 22 filters, 23 panels,
24 output rows at a time, 25 bytes of a buffer row, 26 input rows that a kernel spans. Threads past ``workers`` have no buffer
and do nothing. weights, columns, numbers: see `byte_panels`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.bulk import copy_bytes, fill_bytes
from softneuro.codegen.byte_panels import COLUMN_NUMBERS, step_bytes
from softneuro.codegen.byte_tile import byte_tile
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_lanes, micro_kernel, store_at
from softneuro.codegen.integer_forms import integer_form
from softneuro.codegen.memory import load_f32, load_i64
from softneuro.codegen.storage import STORED_BYTES, byte_value, quantisation_numbers
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, first_lanes

__all__ = ["make"]

_EVERY_BYTE = 0x0101010101010101


def make(target: Target, mr: int, nv: int, channels: int, found: str, kept: str,
         epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``mr`` neighbouring pixels by ``nv`` vectors of filters.

    found: what x is, ``f32`` (channels first) or ``qint8`` (channels last). kept: as in `byte_tile`.
    """
    tile = byte_tile(target, mr, nv, epilogue, kept, 0)
    read, copy, fill = _bytes_of_planes(target, channels), copy_bytes(target), fill_bytes(target)
    width, size = nv * target.f32_lanes, STORED_BYTES[kept]
    line_bytes, floats = width * step_bytes(integer_form(target)), found == "f32"

    def kernel(args: int, tid: int, nthreads: int) -> None:
        workers = min(load_i64(args, 10), nthreads)
        if tid >= workers:
            return
        x, y, numbers, input_numbers = load_i64(args, 0), load_i64(args, 1), load_i64(args, 6), load_i64(args, 7)
        buffer = load_i64(args, 8) + tid * load_i64(args, 9)
        height, columns = load_i64(args, 12), load_i64(args, 13)
        taps, steps, row_stride, column_step = load_i64(args, 14), load_i64(args, 15), load_i64(args, 16), load_i64(args, 17)
        above, left = load_i64(args, 18), load_i64(args, 19)
        out_height, out_width, filters = load_i64(args, 20), load_i64(args, 21), load_i64(args, 22)
        panels, rows_at_once, buffer_row = load_i64(args, 23), load_i64(args, 24), load_i64(args, 25)
        panel_bytes = taps * steps * line_bytes
        padding = int(load_f32(input_numbers, 1)) * _EVERY_BYTE
        down = (out_height + rows_at_once - 1) // rows_at_once
        units = load_i64(args, 11) * down
        for unit in range(units * tid // workers, units * (tid + 1) // workers):
            image = unit // down
            top = (unit - image * down) * rows_at_once
            rows = min(rows_at_once, out_height - top)
            for row in range((rows - 1) * row_stride + load_i64(args, 26)):
                here, line = top * row_stride - above + row, buffer + row * buffer_row
                if here < 0 or here >= height:
                    fill(line, buffer_row, padding)
                else:
                    fill(line, left * channels, padding)
                    first = line + left * channels
                    if floats:
                        plane = height * columns * 4
                        read(first, x + image * channels * plane + here * columns * 4, plane, columns, input_numbers)
                    else:
                        copy(first, x + (image * height + here) * columns * channels, columns * channels)
                    end = (left + columns) * channels
                    fill(line + end, buffer_row - end, padding)
            for panel in range(panels):
                weights = load_i64(args, 2) + panel * panel_bytes
                for row in range(rows):
                    for column in range(0, out_width, mr):
                        pixel = ((image * out_height + top + row) * out_width + column) * filters
                        place = (pixel + panel * width) * size
                        tile(taps, steps, 0, buffer + row * row_stride * buffer_row + column * column_step, buffer,
                             load_i64(args, 4), weights, weights, load_i64(args, 3) + panel * COLUMN_NUMBERS * width * 4,
                             y + place, filters * size, load_i64(args, 5) + place, min(mr, out_width - column),
                             min(width, filters - panel * width), numbers)

    return kernel


def _bytes_of_planes(target: Target, channels: int) -> Any:
    """The intrinsic ``read(into, x, plane, count, numbers)``: bytes [count][channels] of ``count`` elements of each plane.

    Planes are ``plane`` bytes apart. Writes whole vectors, so up to a vector's channels past the end.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)

    def body(builder: Any, args: list[Any]) -> None:
        into, x, plane, count, numbers = args
        quantisation = quantisation_numbers(builder, byte_offset(builder, numbers, 0), lanes)
        loop = CountedLoop(builder, builder.sdiv(builder.add(count, I64(lanes - 1)), I64(lanes)), [])
        first = builder.mul(loop.index, I64(lanes))
        mask = first_lanes(builder, builder.sub(count, first), lanes)
        source = byte_offset(builder, x, builder.mul(first, I64(4)))
        found = []
        for channel in range(channels):
            pointer = byte_offset(builder, source, builder.mul(plane, I64(channel)))
            found.append(byte_value(builder, target, load_lanes(builder, pointer, vector, mask), quantisation))
        store_at(builder, _interleaved(builder, found), byte_offset(builder, into, builder.mul(first, I64(channels))), 1)
        loop.end([])

    return micro_kernel(f"bytes_of_planes_{channels}", 5, body)


def _interleaved(builder: Any, vectors: list[Any]) -> Any:
    """The first element of each vector, then the second of each, and so on."""
    count, lanes, joined = len(vectors), vectors[0].type.count, list(vectors)
    while len(joined) & (len(joined) - 1):
        joined.append(vectors[0])
    while len(joined) > 1:
        size = joined[0].type.count
        both = ir.Constant(ir.VectorType(I32, 2 * size), list(range(2 * size)))
        joined = [builder.shuffle_vector(a, b, both) for a, b in zip(joined[::2], joined[1::2], strict=True)]
    places = [channel * lanes + place for place in range(lanes) for channel in range(count)]
    return builder.shuffle_vector(joined[0], joined[0], ir.Constant(ir.VectorType(I32, len(places)), places))
