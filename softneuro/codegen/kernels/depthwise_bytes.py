"""Depthwise convolution of bytes, channels last: tiles of output rows by output columns, one vector of channels at a time.

The rows under a tile are interleaved by groups, so that one instruction multiplies and adds what a column of the window
has in them; the sums are exact. Padding is the input's zero point, read from a row of it.

Words: 0 x, 1 y, 2 weights, 3 parameters, 4 numbers, 5 padding, 6 residual, 7 images, 8 channels, 9 height, 10 width,
11 output height, 12 output width, 13 top pad, 14 left pad, 15 chunks.
weights: [block][`weight_groups`][4 vectors][lane][row of the group], int8 or for groups of two int16. parameters:
[block][`BYTE_PARAMETERS`][4 vectors][lane]. A block is ``width`` channels in the order of `byte_lanes`; the last one ends with
the last channel. numbers: float32 scale and zero point of y and of the residual, then 1 / scale of y, and the least and the
largest byte of y. padding: as many bytes as there are channels, at least ``width``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.byte_lanes import (
    add_byte_products,
    in_memory_order,
    interleaved_rows,
    packed_bytes,
    unpacked_bytes,
    within_words,
)
from softneuro.codegen.depthwise_rows import BYTE_PARAMETERS, Uses, axis_uses, row_groups, rows_together, weight_groups
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_at, load_lanes, micro_kernel, store_at, store_lanes
from softneuro.codegen.finish import store_finished
from softneuro.codegen.functions import activation_value
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic, first_lanes, fma_value, splat_value
from softneuro.ops.epilogue import Epilogue

__all__ = ["make"]

Sums = Mapping[tuple[int, int], Sequence[Any]]
"""Four vectors for each (row, column) of a tile, in order."""
_VECTORS = 4
_CLIPS = ("", "relu", "clip")  # activations that are bounds of the bytes


def make(target: Target, kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, dilation_h: int, dilation_w: int,
         rt: int, ot: int, width: int, masked: bool, wanted: str, epilogue: str) -> Callable[[int, int, int], None]:
    """The kernel for tiles of ``rt`` rows by ``ot`` columns and vectors of ``width`` channels, ``masked`` for fewer ones.

    wanted: ``qint8`` or ``f32``, which y and the residual are kept as.
    """
    uses = axis_uses(rt, kernel_h, stride_h, dilation_h), axis_uses(ot, kernel_w, stride_w, dilation_w)
    emitted = _Tile(target, uses, (rt, ot), kernel_w, width, masked, wanted, Epilogue.parse(epilogue))
    tile = emitted.intrinsic()
    weight_bytes, parameter_bytes, size = emitted.weight_bytes, emitted.parameter_bytes, emitted.nbytes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, weights, parameters = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        residual, images, channels = load_i64(args, 6), load_i64(args, 7), load_i64(args, 8)
        height, columns_in = load_i64(args, 9), load_i64(args, 10)
        out_height, out_width = load_i64(args, 11), load_i64(args, 12)
        pad_top, pad_left, chunks = load_i64(args, 13), load_i64(args, 14), load_i64(args, 15)
        blocks = (channels + width - 1) // width
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
            top, left = row * stride_h - pad_top, column * stride_w - pad_left
            place = ((image * out_height + row) * out_width + column) * channels * size
            tile(x + ((image * height + top) * columns_in + left) * channels, columns_in * channels, channels, top, left,
                 height, columns_in, weights + first * weight_bytes, parameters + first * parameter_bytes,
                 load_i64(args, 4), load_i64(args, 5), first, last - first, y + place, out_width * channels * size,
                 residual + place, min(rt, out_height - row), min(ot, out_width - column))

    return kernel


class _Tile:
    """Emits the intrinsic ``tile(x, row, channels, top, left, height, width, w, parameters, numbers, padding, first, blocks, y,
    y_row, residual, rows, columns)``.

    x: address of input pixel (top, left), which may lie outside the image of height x width pixels; row: bytes of a row of x.
    w, parameters: of block ``first``; y, residual: of channel 0. rows, columns: how much of the tile is stored.
    """

    def __init__(self, target: Target, uses: tuple[Uses, Uses], tile: tuple[int, int], kernel_w: int, width: int, masked: bool,
                 wanted: str, epilogue: Epilogue) -> None:
        self._target, self._rows, self._columns, self._tile = target, *uses, tile
        self._width, self._masked, self._wanted, self._epilogue = width, masked, wanted, epilogue
        self._size = rows_together(target)
        self._groups = row_groups(self._rows, self._size)
        places = enumerate(weight_groups(self._rows, self._size, tile[0], kernel_w))
        self._places = {(g.column, g.output, g.group): place for place, g in places}
        self._lanes = width // _VECTORS
        self.weight_bytes = len(self._places) * _VECTORS * width
        self.parameter_bytes = BYTE_PARAMETERS * _VECTORS * width
        self.nbytes = 1 if wanted == "qint8" else 4

    def intrinsic(self) -> Any:
        """The intrinsic."""
        return micro_kernel("depthwise_bytes_tile", 18, self._body)

    def _body(self, builder: Any, args: list[Any]) -> None:
        (x, row, channels, top, left, height, width, w, parameters, numbers, padding, first, blocks, y, y_row, residual, rows,
         columns) = args
        sources = self._sources(builder, x, (row, channels), (top, left), (height, width), padding)
        mask = first_lanes(builder, channels, self._width) if self._masked else None
        finish = _Finish(builder, self._target, self._epilogue, self._wanted, self._lanes, numbers, channels, self._masked)
        loop = CountedLoop(builder, blocks, [])
        place = builder.mul(builder.add(first, loop.index), I64(self._width))
        if not self._masked:
            most = builder.sub(channels, I64(self._width))
            place = builder.select(builder.icmp_signed("<", place, most), place, most)
        block = byte_offset(builder, parameters, builder.mul(loop.index, I64(self.parameter_bytes)))
        weights = byte_offset(builder, w, builder.mul(loop.index, I64(self.weight_bytes)))
        sums = finish.scaled(self._sums(builder, sources, weights, block, place, mask), block)
        rt, ot = self._tile

        def store(total: Sequence[Any], d: Any, o: Any) -> None:
            pixel = builder.add(builder.mul(y_row, d), builder.mul(channels, builder.mul(o, I64(self.nbytes))))
            finish.store(total, y, residual, builder.add(pixel, builder.mul(place, I64(self.nbytes))), mask)

        whole = builder.and_(builder.icmp_signed("==", rows, I64(rt)), builder.icmp_signed("==", columns, I64(ot)))
        with builder.if_else(whole) as (full, part):
            with full:
                for (d, o), total in sums.items():
                    store(total, I64(d), I64(o))
            with part:
                self._store_part(builder, sums, rows, columns, store)
        loop.end([])

    def _store_part(self, builder: Any, sums: Sums, rows: Any, columns: Any,
                    store: Callable[[Sequence[Any], Any, Any], None]) -> None:
        """The first rows and columns of a tile, through a buffer on the stack: small code for the rare edge."""
        floats = ir.VectorType(F32, self._lanes)
        with builder.goto_entry_block():
            kind = ir.ArrayType(floats, _VECTORS * len(sums))
            buffer = builder.bitcast(builder.alloca(kind), I8.as_pointer())
        for index, value in enumerate(v for total in sums.values() for v in total):
            store_at(builder, value, byte_offset(builder, buffer, index * self._width))
        down = CountedLoop(builder, rows, [])
        across = CountedLoop(builder, columns, [])
        number = builder.add(builder.mul(down.index, I64(self._tile[1])), across.index)
        pixel = byte_offset(builder, buffer, builder.mul(number, I64(_VECTORS * self._width)))
        store([load_at(builder, byte_offset(builder, pixel, j * self._width), floats) for j in range(_VECTORS)], down.index,
              across.index)
        across.end([])
        down.end([])

    def _sources(self, builder: Any, x: Any, steps: tuple[Any, Any], origin: tuple[Any, Any], sizes: tuple[Any, Any],
                 padding: Any) -> Mapping[tuple[int, int], Any]:
        """Where the address of each input pixel (or of the padding) is kept on the stack."""
        inside = [{i: builder.icmp_unsigned("<", builder.add(start, I64(i)), end) for i in uses}
                  for uses, start, end in zip((self._rows, self._columns), origin, sizes, strict=True)]
        found = {}
        for r in self._rows:
            line = builder.add(x, builder.mul(steps[0], I64(r)))
            for c in self._columns:
                pixel = builder.add(line, builder.mul(steps[1], I64(c)))
                found[r, c] = builder.alloca(I64)
                builder.store(builder.select(builder.and_(inside[0][r], inside[1][c]), pixel, padding), found[r, c])
        return found

    def _sums(self, builder: Any, sources: Mapping[tuple[int, int], Any], w: Any, block: Any, place: Any, mask: Any) -> Sums:
        """The sums of one block of channels."""
        words, nbytes = ir.VectorType(I32, self._lanes), ir.VectorType(I8, self._width)
        start = [load_at(builder, byte_offset(builder, block, j * self._width), words) for j in range(_VECTORS)]
        sums = {output: list(start) for output in itertools.product(range(self._tile[0]), range(self._tile[1]))}
        for c, column_uses in self._columns.items():
            for number, group in enumerate(self._groups):
                loaded = [load_lanes(builder, byte_offset(builder, builder.load(sources[r, c]), place), nbytes, mask, 1)
                          for r in group]
                lanes = interleaved_rows(builder, loaded, self._size)
                for d, (o, kx) in itertools.product(range(self._tile[0]), column_uses):
                    first = self._places.get((kx, d, number))
                    if first is None:
                        continue
                    for j in range(_VECTORS):
                        weights = load_at(builder, byte_offset(builder, w, (first * _VECTORS + j) * self._width), words)
                        sums[d, o][j] = add_byte_products(builder, self._target, sums[d, o][j], lanes[j], weights, self._size)
        return sums


class _Finish:
    """Emits what happens to the sums of an output pixel. numbers: see the module."""

    def __init__(self, builder: Any, target: Target, epilogue: Epilogue, wanted: str, lanes: int, numbers: Any, channels: Any,
                 masked: bool) -> None:
        self._builder, self._target, self._epilogue, self._wanted, self._lanes = builder, target, epilogue, wanted, lanes
        self._channels, self._masked = channels, masked
        self._clips = wanted == "qint8" and not epilogue.residual and epilogue.activation in _CLIPS
        if wanted != "qint8":
            return
        scalars = [load_at(builder, byte_offset(builder, numbers, 4 * i), F32) for i in range(7)]
        self._zero = builder.fptosi(scalars[1], I32)
        self._residual = [splat_value(builder, scalars[i], lanes) for i in (2, 3)]
        self._inverse = splat_value(builder, scalars[4], lanes)
        self._bounds = [splat_value(builder, builder.trunc(builder.fptosi(s, I32), I8), 4 * lanes) for s in scalars[5:]]

    def scaled(self, sums: Sums, block: Any) -> Sums:
        """float32 of the sums and the bias: in steps of the output where nothing but bounds follows, else real numbers."""
        builder, floats = self._builder, ir.VectorType(F32, self._lanes)
        first = 3 if self._clips else 1
        found: dict[tuple[int, int], list[Any]] = {output: [] for output in sums}
        for j in range(_VECTORS):
            scale, bias = (load_at(builder, byte_offset(builder, block, ((first + i) * _VECTORS + j) * 4 * self._lanes), floats)
                           for i in range(2))
            for output, total in sums.items():
                value = builder.sitofp(total[j], floats)
                found[output].append(fma_value(builder, self._target, value, scale, bias))
        return found

    def store(self, values: Sequence[Any], y: Any, residual: Any, offset: Any, mask: Any) -> None:
        """One pixel of `scaled` values, ``offset`` bytes from y and from residual."""
        builder = self._builder
        if self._wanted != "qint8":
            self._store_floats(values, y, residual, offset)
            return
        steps = values if self._clips else self._finished(values, residual, offset, mask)
        found = packed_bytes(builder, self._target, steps, self._zero)
        if self._clips and self._epilogue.activation:
            suffix = f"v{4 * self._lanes}i8"
            found = call_intrinsic(builder, f"llvm.umax.{suffix}", found.type, [found, self._bounds[0]])
            found = call_intrinsic(builder, f"llvm.umin.{suffix}", found.type, [found, self._bounds[1]])
        store_lanes(builder, found, byte_offset(builder, y, offset), mask, 1)

    def _store_floats(self, values: Sequence[Any], y: Any, residual: Any, offset: Any) -> None:
        builder = self._builder
        for k, value in enumerate(in_memory_order(builder, values)):
            left = builder.sub(self._channels, I64(k * self._lanes))
            mask = first_lanes(builder, left, self._lanes) if self._masked else None
            place = builder.add(offset, I64(4 * k * self._lanes))
            store_finished(builder, self._target, self._epilogue, value, y, residual, place, mask)

    def _finished(self, values: Sequence[Any], residual: Any, offset: Any, mask: Any) -> list[Any]:
        """The epilogue's results in steps of the output."""
        builder, epilogue = self._builder, self._epilogue
        if epilogue.residual:
            loaded = load_lanes(builder, byte_offset(builder, residual, offset), ir.VectorType(I8, 4 * self._lanes), mask, 1)
            scale, zero = self._residual
            added = [builder.fmul(builder.fsub(builder.sitofp(words, values[0].type), zero), scale)
                     for words in unpacked_bytes(builder, loaded)]
        found = []
        for j, value in enumerate(values):
            value = builder.fadd(value, added[j]) if epilogue.residual == "before" else value
            value = activation_value(builder, self._target, epilogue.activation, epilogue.parameters, value)
            value = builder.fadd(value, added[j]) if epilogue.residual == "after" else value
            found.append(within_words(builder, builder.fmul(value, self._inverse)))
        return found
