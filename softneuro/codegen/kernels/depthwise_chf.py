"""Depthwise convolution, channels first: vectors along the rows, each plane padded into scratch just before its use.

Words: 0 x, 1 y, 2 weights, 3 bias, 4 residual, 5 planes, 6 channels, 7 height, 8 width, 9 output height,
10 output width, 11 top pad, 12 left pad, 13 scratch, 14 slots, 15 padded rows, 16 pitch.
weights: float32 [channel][taps]. scratch: [slot][padded row][phase][pitch] float32, see
`softneuro.codegen.padded_row`; a thread uses one slot, so threads beyond the slots have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.bulk import fill_bytes
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, splat_at
from softneuro.codegen.finish import store_finished
from softneuro.codegen.memory import load_i64
from softneuro.codegen.padded_row import padded_row
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes, fma_value
from softneuro.ops.epilogue import Epilogue

__all__ = ["make"]


def _tile(target: Target, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], rt: int,
          epilogue: Epilogue) -> Any:
    """The intrinsic ``tile(x, line, w, bias, y, y_row, residual, rows, columns)``: ``rt`` whole output rows.

    x: the first padded row; line: bytes of one phase of a row. Of the tile, rows x columns elements are stored.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    uses: dict[int, list[tuple[int, int]]] = {}
    for d in range(rt):
        for ky in range(kernel[0]):
            uses.setdefault(d * stride[0] + ky * dilation[0], []).append((d, ky))

    def body(builder: Any, args: list[Any]) -> None:
        x, line, w, bias, y, y_row, residual, rows, columns = args

        start = splat_at(builder, byte_offset(builder, bias, 0), lanes)
        weights = {(ky, kx): splat_at(builder, byte_offset(builder, w, 4 * (ky * kernel[1] + kx)), lanes)
                   for ky in range(kernel[0]) for kx in range(kernel[1])}
        row_pointers = {r: byte_offset(builder, x, builder.mul(line, I64(r * stride[1]))) for r in uses}
        phases = [builder.mul(line, I64(p)) for p in range(stride[1])]
        loop = CountedLoop(builder, builder.sdiv(builder.add(columns, I64(lanes - 1)), I64(lanes)), [])
        place = builder.mul(loop.index, I64(4 * lanes))
        sums = [start] * rt
        for r in sorted(uses):
            for kx in range(kernel[1]):
                shift, phase = divmod(kx * dilation[1], stride[1])
                pointer = byte_offset(builder, byte_offset(builder, row_pointers[r], place), phases[phase])
                value = load_at(builder, byte_offset(builder, pointer, 4 * shift), vector)
                for d, ky in uses[r]:
                    sums[d] = fma_value(builder, target, value, weights[ky, kx], sums[d])

        def store(mask: Any) -> None:
            for d in range(rt):
                offset = builder.add(builder.mul(y_row, I64(d)), place)
                with builder.if_then(builder.icmp_signed(">", rows, I64(d))):
                    store_finished(builder, target, epilogue, sums[d], y, residual, offset, mask)

        left = builder.sub(columns, builder.mul(loop.index, I64(lanes)))
        with builder.if_else(builder.icmp_signed(">=", left, I64(lanes))) as (whole, part):
            with whole:
                store(None)
            with part:
                store(first_lanes(builder, left, lanes))
        loop.end([])

    return micro_kernel("depthwise_rows", 9, body)


def make(target: Target, kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, dilation_h: int, dilation_w: int,
         rt: int, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``rt`` output rows."""
    kernel_size, stride, dilation = (kernel_h, kernel_w), (stride_h, stride_w), (dilation_h, dilation_w)
    tile = _tile(target, kernel_size, stride, dilation, rt, Epilogue.parse(epilogue))
    write, zero = padded_row(target, stride_w), fill_bytes(target)
    taps = kernel_h * kernel_w

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, bias, residual = (
            load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3), load_i64(args, 4))
        planes, channels, height, width = load_i64(args, 5), load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        out_height, out_width = load_i64(args, 9), load_i64(args, 10)
        pad_top, pad_left, slots = load_i64(args, 11), load_i64(args, 12), load_i64(args, 14)
        padded, pitch = load_i64(args, 15), load_i64(args, 16)
        line = 4 * pitch
        workers = min(nthreads, slots)
        if tid >= workers:
            return
        plane_copy = load_i64(args, 13) + tid * padded * stride_w * line
        zero(plane_copy, padded * stride_w * line, 0)
        first, last = min(pad_top, padded), min(pad_top + height, padded)
        for plane in range(planes * tid // workers, planes * (tid + 1) // workers):
            for i in range(first, last):
                write(plane_copy + i * stride_w * line, x + (plane * height + i - pad_top) * width * 4, width,
                      pad_left, pitch, 0)
            channel = plane % channels
            for row in range(0, out_height, rt):
                place = (plane * out_height + row) * out_width * 4
                tile(plane_copy + row * stride_h * stride_w * line, line, weights + channel * taps * 4,
                     bias + channel * 4, y + place, out_width * 4, residual + place, min(rt, out_height - row),
                     out_width)

    return kernel
