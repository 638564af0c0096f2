"""Pooling with channels last: every output pixel takes its taps as vectors of channels.

Words: 0 x, 1 y, 2 images, 3 channels, 4-6 outputs along d h w, 7 x bytes of an image, 8-10 x bytes of one step along
d h w, 11-13 x bytes from tap to tap along d h w, 14-16 windows along d h w, 17-18 scale and zero point of x and of y (two
float32 each, read for averages of qint8 only).
windows: int64 [outputs][3]: first input position inside x, taps inside x, and how many elements an average counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.elementary import exact_maximum_value, maximum_value
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_lanes, micro_kernel, store_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES, Numbers, load_stored, quantisation_numbers, store_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, call_intrinsic, first_lanes, splat_value

__all__ = ["make"]

Combine = Callable[[list[Any], list[Any]], list[Any]]


def make(target: Target, kind: str, nv: int, found: str, wanted: str) -> Callable[[int, int, int], None]:
    """The kernel of ``max`` or ``average`` that takes ``nv`` vectors of channels at a time.

    found, wanted: what x and y are kept as, ``f32``, ``f16``, ``bf16`` or ``qint8``. The maxima of qint8 are those of the
    bytes, so that y has the quantisation of x.
    """
    bytewise = kind == "max" and found == "qint8"
    pixel = _pool_bytes(target, nv) if bytewise else _pool_pixel(target, kind, nv, found, wanted)
    y_size = STORED_BYTES[wanted]

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, images, channels = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        out_d, out_h, out_w = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        image_bytes = load_i64(args, 7)
        step_d, step_h, step_w = load_i64(args, 8), load_i64(args, 9), load_i64(args, 10)
        tap_d, tap_h, tap_w = load_i64(args, 11), load_i64(args, 12), load_i64(args, 13)
        windows_d, windows_h, windows_w = load_i64(args, 14), load_i64(args, 15), load_i64(args, 16)
        pixels = images * out_d * out_h * out_w
        unit, end = pixels * tid // nthreads, pixels * (tid + 1) // nthreads
        while unit < end:
            row = unit // out_w
            column = unit - row * out_w
            stop = min(out_w, column + end - unit)
            plane = row // out_h
            at_h = windows_h + (row - plane * out_h) * 24
            image = plane // out_d
            at_d = windows_d + (plane - image * out_d) * 24
            start = x + image * image_bytes + load_i64(at_d, 0) * step_d + load_i64(at_h, 0) * step_h
            count = load_i64(at_d, 2) * load_i64(at_h, 2)
            for q in range(column, stop):
                at_w = windows_w + q * 24
                pixel(start + load_i64(at_w, 0) * step_w, y + (row * out_w + q) * channels * y_size, channels,
                      load_i64(at_d, 1), load_i64(at_h, 1), load_i64(at_w, 1), tap_d, tap_h, tap_w,
                      count * load_i64(at_w, 2), load_i64(args, 17), load_i64(args, 18))
            unit += stop - column

    return kernel


def _pool_pixel(target: Target, kind: str, nv: int, found: str, wanted: str) -> Any:
    """The intrinsic ``pixel(x, y, channels, taps_d, taps_h, taps_w, tap_d, tap_h, tap_w, count, x_numbers, y_numbers)``."""
    width = nv * target.f32_lanes

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, channels, *window, count = arguments[:-2]
        numbers = [quantisation_numbers(builder, byte_offset(builder, address, 0), target.f32_lanes) if dtype == "qint8" else None
                   for address, dtype in zip(arguments[-2:], (found, wanted), strict=True)]
        pixel = _Pixel(builder, target, kind, nv, window, count, (found, wanted), numbers)
        groups = builder.sdiv(channels, I64(width))
        done = builder.mul(groups, I64(width))

        def whole(values: list[Any]) -> list[Any]:
            loop = CountedLoop(builder, groups, [])
            pixel.group(x, y, builder.mul(loop.index, I64(width)), [None] * nv)
            loop.end([])
            return values

        def rest(values: list[Any]) -> list[Any]:
            lanes, left = target.f32_lanes, builder.sub(channels, done)
            masks = [first_lanes(builder, builder.sub(left, I64(j * lanes)), lanes) for j in range(nv)]
            pixel.group(x, y, done, masks)
            return values

        conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
        conditional(builder, builder.icmp_signed("<", done, channels), [], rest)

    return micro_kernel(f"pool_pixel_{nv}_{found}_{wanted}", 12, body)


class _Pixel:
    """Emits one output pixel. window: taps along d h w, then bytes from tap to tap; count: elements of an average.

    dtypes, numbers: what x and y are kept as, and their quantisations.
    """

    def __init__(self, builder: Any, target: Target, kind: str, nv: int, window: Sequence[Any], count: Any,
                 dtypes: tuple[str, str], numbers: Sequence[Numbers | None]) -> None:
        self._builder, self._target, self._nv, self._window, self._lanes = builder, target, nv, window, target.f32_lanes
        self._dtypes, self._numbers = dtypes, numbers
        self._vector = ir.VectorType(F32, self._lanes)
        self._scale = builder.fdiv(F32(1.0), builder.sitofp(count, F32)) if kind == "average" else None

    def _all(self, value: float) -> list[Any]:
        """nv vectors of one value."""
        return [ir.Constant(self._vector, [value] * self._lanes)] * self._nv

    def group(self, x: Any, y: Any, first: Any, masks: Sequence[Any]) -> None:
        """nv vectors of channels from number ``first`` on; masks are None for whole vectors."""
        builder = self._builder
        sizes = [STORED_BYTES[dtype] for dtype in self._dtypes]
        source, place = (byte_offset(builder, start, builder.mul(first, I64(size)))
                         for start, size in zip((x, y), sizes, strict=True))
        values = self._maximum(source, masks) if self._scale is None else self._average(source, masks)
        for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
            store_stored(builder, self._target, value, byte_offset(builder, place, j * sizes[1] * self._lanes), self._dtypes[1],
                         mask, self._numbers[1], tiny=False)

    def _taps(self, source: Any, masks: Sequence[Any], initial: list[Any], combine: Combine) -> list[Any]:
        """Fold ``combine`` over the vectors of all taps."""
        dtype, step = self._dtypes[0], STORED_BYTES[self._dtypes[0]] * self._lanes

        def load(pointer: Any) -> list[Any]:
            return [load_stored(self._builder, self._target, byte_offset(self._builder, pointer, j * step), dtype, self._lanes,
                                mask, self._numbers[0]) for j, mask in enumerate(masks)]

        return _over_taps(self._builder, self._window, source, initial, lambda values, at: combine(values, load(at)))

    def _average(self, source: Any, masks: Sequence[Any]) -> list[Any]:
        builder = self._builder
        sums = self._taps(source, masks, self._all(0.0), lambda sums, loaded: [
            builder.fadd(s, v) for s, v in zip(sums, loaded, strict=True)])
        return [builder.fmul(s, splat_value(builder, self._scale, self._lanes)) for s in sums]

    def _maximum(self, source: Any, masks: Sequence[Any]) -> list[Any]:
        """Largest and sum side by side; only where a sum is NaN (or inf - inf) again with the exact maximum."""
        builder, nv = self._builder, self._nv

        def fast(values: list[Any], loaded: list[Any]) -> list[Any]:
            largest = [maximum_value(builder, v, m) for m, v in zip(values[:nv], loaded, strict=True)]
            return largest + [builder.fadd(s, v) for s, v in zip(values[nv:], loaded, strict=True)]

        def exact(values: list[Any], loaded: list[Any]) -> list[Any]:
            return [exact_maximum_value(builder, m, v) for m, v in zip(values, loaded, strict=True)]

        lowest = self._all(-math.inf)
        values = self._taps(source, masks, lowest + self._all(0.0), fast)
        doubts = [builder.fcmp_unordered("uno", s, s) for s in values[nv:]]
        doubtful = functools.reduce(builder.or_, doubts)
        some = call_intrinsic(builder, f"llvm.vector.reduce.or.v{self._lanes}i1", ir.IntType(1), [doubtful])
        return conditional(builder, some, values[:nv], lambda _: self._taps(source, masks, lowest, exact))


def _over_taps(builder: Any, window: Sequence[Any], source: Any, initial: list[Any],
               combine: Callable[[list[Any], Any], list[Any]]) -> list[Any]:
    """Fold ``combine`` over the byte pointers to all taps. window: taps along d h w, then bytes from tap to tap."""

    def over(axis: int, pointer: Any, values: list[Any]) -> list[Any]:
        loop = CountedLoop(builder, window[axis], [pointer, *values])
        pointer, *values = loop.carried
        values = over(axis + 1, pointer, values) if axis < 2 else combine(values, pointer)
        loop.end([byte_offset(builder, pointer, window[3 + axis]), *values])
        return list(loop.carried[1:])

    product = builder.mul(builder.mul(window[0], window[1]), window[2])
    return conditional(builder, builder.icmp_signed(">", product, I64(0)), initial, lambda values: over(0, source, values))


def _pool_bytes(target: Target, nv: int) -> Any:
    """The intrinsic of `_pool_pixel` for maxima of bytes: whole vectors, the last of which may overlap the one before."""
    lanes = 4 * target.f32_lanes
    vector = ir.VectorType(I8, lanes)

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, channels, *window = arguments[:-3]

        def group(first: Any, masks: Sequence[Any]) -> None:
            def combine(values: list[Any], pointer: Any) -> list[Any]:
                loaded = [load_lanes(builder, byte_offset(builder, pointer, j * lanes), vector, mask, 1)
                          for j, mask in enumerate(masks)]
                return [call_intrinsic(builder, f"llvm.umax.v{lanes}i8", vector, [v, other])
                        for v, other in zip(values, loaded, strict=True)]

            lowest = [ir.Constant(vector, [0] * lanes)] * len(masks)
            values = _over_taps(builder, window, byte_offset(builder, x, first), lowest, combine)
            for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
                store_lanes(builder, value, byte_offset(builder, byte_offset(builder, y, first), j * lanes), mask, 1)

        def groups(vectors: int) -> None:
            width = vectors * lanes
            loop = CountedLoop(builder, builder.sdiv(builder.add(channels, I64(width - 1)), I64(width)), [])
            start, most = builder.mul(loop.index, I64(width)), builder.sub(channels, I64(width))
            group(builder.select(builder.icmp_signed("<", start, most), start, most), [None] * vectors)
            loop.end([])

        with builder.if_else(builder.icmp_signed(">=", channels, I64(nv * lanes))) as (wide, others):
            with wide:
                groups(nv)
            with others, builder.if_else(builder.icmp_signed(">=", channels, I64(lanes))) as (one, few):
                with one:
                    groups(1)
                with few:
                    group(I64(0), [first_lanes(builder, channels, lanes)])

    return micro_kernel(f"pool_bytes_{nv}", 12, body)
