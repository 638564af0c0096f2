"""Depthwise convolution, channels last: tiles of output rows by output columns, one vector of channels at a time.

Words: 0 x, 1 y, 2 weights, 3 residual, 4 images, 5 channels, 6 height, 7 width, 8 output height, 9 output width,
10 top pad, 11 left pad, 12 chunks.
x is kept as ``found``, y and the residual as ``wanted``: f32, f16 or bf16. weights: float32 [block][taps + 1][lanes], the bias
last. chunks: in how many parts the channel blocks are shared out, for images with fewer tiles than threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.depthwise_rows import Uses, axis_uses
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel
from softneuro.codegen.finish import Kept, store_finished
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES, load_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes, fma_value
from softneuro.ops.epilogue import Epilogue

__all__ = ["make"]


def _tile(target: Target, kernel: tuple[int, int], uses: tuple[Uses, Uses], rt: int, ot: int, masked: bool,
          epilogue: Epilogue, found: str, wanted: str) -> Any:
    """The intrinsic ``tile(x, row, pixel, top, left, bottom, right, w, blocks, channels, y, y_row, y_pixel, residual, rows,
    columns)``.

    x: address of input pixel (top, left), which may lie outside the image; pixels with coordinates outside
    0..bottom-1, 0..right-1 are padding and skipped by branches, which all blocks of a tile decide alike.
    row, y_row: bytes of a row; pixel, y_pixel: bytes of a pixel. channels: how many are left from the first block.
    rows, columns: how much of the tile is stored.
    """
    lanes = target.f32_lanes
    vector_bytes = 4 * lanes
    sizes = STORED_BYTES[found], STORED_BYTES[wanted]
    stored = Kept(wanted)
    taps = kernel[0] * kernel[1]
    row_uses, column_uses = uses
    keep_all = rt * ot + taps + 1 <= target.registers

    def body(builder: Any, args: list[Any]) -> None:
        x, row, pixel, top, left, bottom, right, w, blocks, channels, y, y_row, y_pixel, residual, rows, columns = args
        row_inside, column_inside = _inside(builder, row_uses, top, bottom), _inside(builder, column_uses, left, right)
        row_pointers = {r: byte_offset(builder, x, builder.mul(row, I64(r))) for r in row_uses}
        column_offsets = {c: builder.mul(pixel, I64(c)) for c in column_uses}
        loop = CountedLoop(builder, blocks, [])
        place, y_place = (builder.mul(loop.index, I64(lanes * size)) for size in sizes)
        weights = _Weights(builder, kernel, byte_offset(builder, w, builder.mul(loop.index, I64((taps + 1) * vector_bytes))),
                           ir.VectorType(F32, lanes))
        left_over = builder.sub(channels, builder.mul(loop.index, I64(lanes)))
        mask = first_lanes(builder, left_over, lanes) if masked else None
        sums = [weights.bias()] * (rt * ot)
        kept = weights.rows(range(kernel[0])) if keep_all else {}

        def add_pixel(sums: list[Any], r: int, c: int, taken: Mapping[tuple[int, int], Any]) -> list[Any]:
            pointer = byte_offset(builder, byte_offset(builder, row_pointers[r], place), column_offsets[c])
            value = load_stored(builder, target, pointer, found, lanes, mask)
            for d, ky in row_uses[r]:
                for o, kx in column_uses[c]:
                    sums[d * ot + o] = fma_value(builder, target, value, taken[ky, kx], sums[d * ot + o])
            return sums

        def add_row(sums: list[Any], r: int) -> list[Any]:
            taken = kept or weights.rows([ky for _, ky in row_uses[r]])
            for c in column_uses:
                sums = conditional(builder, column_inside[c], sums, functools.partial(add_pixel, r=r, c=c, taken=taken))
            return sums

        for r in row_uses:
            sums = conditional(builder, row_inside[r], sums, functools.partial(add_row, r=r))
        for d in range(rt):
            with builder.if_then(builder.icmp_signed(">", rows, I64(d))):
                for o in range(ot):
                    with builder.if_then(builder.icmp_signed(">", columns, I64(o))):
                        offset = builder.add(builder.add(builder.mul(y_row, I64(d)), builder.mul(y_pixel, I64(o))), y_place)
                        store_finished(builder, target, epilogue, sums[d * ot + o], y, residual, offset, mask,
                                       stored)
        loop.end([])

    return micro_kernel("depthwise_tile", 16, body)


def _inside(builder: Any, uses: Uses, start: Any, end: Any) -> dict[int, Any]:
    """For each input position from ``start`` on, whether it lies in 0..end-1."""
    return {i: builder.icmp_unsigned("<", builder.add(start, I64(i)), end) for i in uses}


@dataclass(frozen=True)
class _Weights:
    """The weights of one block of channels, [taps + 1] vectors in memory."""

    builder: Any
    kernel: tuple[int, int]
    pointer: Any
    vector: ir.Type

    def _load(self, number: int) -> Any:
        place = byte_offset(self.builder, self.pointer, number * 4 * self.vector.count)
        return load_at(self.builder, place, self.vector)

    def bias(self) -> Any:
        """What sums start from."""
        return self._load(self.kernel[0] * self.kernel[1])

    def rows(self, kys: Iterable[int]) -> dict[tuple[int, int], Any]:
        """The weights of some kernel rows, by row and column."""
        return {(ky, kx): self._load(ky * self.kernel[1] + kx) for ky in kys for kx in range(self.kernel[1])}


def make(target: Target, kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, dilation_h: int, dilation_w: int,
         rt: int, ot: int, masked: bool, epilogue: str, found: str, wanted: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``rt`` rows by ``ot`` columns; ``masked`` when channels are no multiple of the lanes."""
    uses = axis_uses(rt, kernel_h, stride_h, dilation_h), axis_uses(ot, kernel_w, stride_w, dilation_w)
    tile = _tile(target, (kernel_h, kernel_w), uses, rt, ot, masked, Epilogue.parse(epilogue), found, wanted)
    size, y_size = STORED_BYTES[found], STORED_BYTES[wanted]
    lanes = target.f32_lanes
    block_bytes = (kernel_h * kernel_w + 1) * 4 * lanes
    reach_h, reach_w = (kernel_h - 1) * dilation_h + 1, (kernel_w - 1) * dilation_w + 1

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, residual = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        images, channels, height, width = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        out_height, out_width = load_i64(args, 8), load_i64(args, 9)
        pad_top, pad_left, chunks = load_i64(args, 10), load_i64(args, 11), load_i64(args, 12)
        pixel, y_pixel = size * channels, y_size * channels
        blocks = (channels + lanes - 1) // lanes
        across, down = (out_width + ot - 1) // ot, (out_height + rt - 1) // rt
        units = images * chunks * down * across
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            band = unit // across
            column = (unit - band * across) * ot
            part = band // down
            row = (band - part * down) * rt
            image = part // chunks
            first = (part - image * chunks) * blocks // chunks
            last = (part - image * chunks + 1) * blocks // chunks
            rows, columns = min(rt, out_height - row), min(ot, out_width - column)
            top, left = row * stride_h - pad_top, column * stride_w - pad_left
            bottom = max(0, min(height, top + (rows - 1) * stride_h + reach_h))
            right = max(0, min(width, left + (columns - 1) * stride_w + reach_w))
            start = first * lanes
            place = ((image * out_height + row) * out_width + column) * y_pixel + start * y_size
            tile(x + ((image * height + top) * width + left) * pixel + start * size, width * pixel, pixel, top, left,
                 bottom, right, weights + first * block_bytes, last - first, channels - start, y + place,
                 out_width * y_pixel, y_pixel, residual + place, rows, columns)

    return kernel
