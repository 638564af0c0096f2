"""Average or maximum over all pixels with channels last: vectors of channels run down the pixels.

Words: 0 x, 1 y, 2 images, 3 pixels, 4 channels, 5-6 scale and zero point of x and of y (two float32 each, read for qint8
only). Bytes are summed as whole numbers: exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.elementary import exact_maximum_value
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_lanes, micro_kernel
from softneuro.codegen.memory import load_i64
from softneuro.codegen.storage import STORED_BYTES, Numbers, load_stored, quantisation_numbers, store_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, first_lanes, splat_value

__all__ = ["make"]

_BLOCK = 64  # pixels summed before they join the total, which keeps the rounding error small


def make(target: Target, kind: str, nv: int, found: str, wanted: str) -> Callable[[int, int, int], None]:
    """The kernel of ``max`` or ``average`` that takes ``nv`` vectors of channels at a time.

    found, wanted: what x and y are kept as, ``f32``, ``f16``, ``bf16`` or ``qint8``.
    """
    group = _channel_group(target, kind, nv, found, wanted)
    size, y_size = STORED_BYTES[found], STORED_BYTES[wanted]
    width = nv * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, images = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        pixels, channels = load_i64(args, 3), load_i64(args, 4)
        groups = (channels + width - 1) // width
        units = images * groups
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            image = unit // groups
            first = (unit - image * groups) * width
            group(x + (image * pixels * channels + first) * size, y + (image * channels + first) * y_size, pixels,
                  channels * size, channels - first, load_i64(args, 5), load_i64(args, 6))

    return kernel


def _channel_group(target: Target, kind: str, nv: int, found: str, wanted: str) -> Any:
    """The intrinsic ``group(x, y, pixels, pixel_bytes, channels, x_numbers, y_numbers)``; pixels and channels are >= 1."""
    lanes, step, y_step = target.f32_lanes, STORED_BYTES[found] * target.f32_lanes, STORED_BYTES[wanted] * target.f32_lanes
    counts = kind == "average" and found == "qint8"
    words = ir.VectorType(I32, lanes)
    neutral = 0.0 if kind == "average" else -math.inf
    start = ir.Constant(words, [0] * lanes) if counts else ir.Constant(ir.VectorType(F32, lanes), [neutral] * lanes)

    def combine(builder: Any, a: Any, b: Any) -> Any:
        if counts:
            return builder.add(a, b)
        return builder.fadd(a, b) if kind == "average" else exact_maximum_value(builder, a, b)

    def load(builder: Any, pointer: Any, mask: Any, numbers: Numbers | None) -> Any:
        if counts:
            return builder.zext(load_lanes(builder, pointer, ir.VectorType(I8, lanes), mask, 1), words)
        return load_stored(builder, target, pointer, found, lanes, mask, numbers)

    def mean(builder: Any, total: Any, pixels: Any, numbers: Numbers | None) -> Any:
        count = splat_value(builder, builder.sitofp(pixels, F32), lanes)
        if numbers is None:
            return builder.fdiv(total, count)
        zeros = builder.mul(builder.fptosi(numbers.zero, words), splat_value(builder, builder.trunc(pixels, I32), lanes))
        steps = builder.sitofp(builder.sub(total, zeros), count.type)
        return builder.fmul(builder.fdiv(steps, count), numbers.scale)

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, pixels, pixel_bytes, channels = arguments[:5]
        numbers = [quantisation_numbers(builder, byte_offset(builder, address, 0), lanes) if dtype == "qint8" else None
                   for address, dtype in zip(arguments[5:], (found, wanted), strict=True)]

        def fold(masks: list[Any]) -> None:
            blocks = builder.sdiv(builder.add(pixels, I64(_BLOCK - 1)), I64(_BLOCK))
            outer = CountedLoop(builder, blocks, [byte_offset(builder, x, 0), *[start] * nv])
            pointer, *totals = outer.carried
            left = builder.sub(pixels, builder.mul(outer.index, I64(_BLOCK)))
            count = builder.select(builder.icmp_signed("<", left, I64(_BLOCK)), left, I64(_BLOCK))
            inner = CountedLoop(builder, count, [pointer, *[start] * nv])
            pointer, *parts = inner.carried
            loaded = [load(builder, byte_offset(builder, pointer, j * step), mask, numbers[0]) for j, mask in enumerate(masks)]
            inner.end([byte_offset(builder, pointer, pixel_bytes),
                       *(combine(builder, p, v) for p, v in zip(parts, loaded, strict=True))])
            pointer, *parts = inner.carried
            outer.end([pointer, *(combine(builder, t, p) for t, p in zip(totals, parts, strict=True))])
            for j, (total, mask) in enumerate(zip(outer.carried[1:], masks, strict=True)):
                if kind == "average":
                    total = mean(builder, total, pixels, numbers[0])
                store_stored(builder, target, total, byte_offset(builder, y, j * y_step), wanted, mask, numbers[1], tiny=False)

        def whole(values: list[Any]) -> list[Any]:
            fold([None] * nv)
            return values

        def part(values: list[Any]) -> list[Any]:
            fold([first_lanes(builder, builder.sub(channels, I64(j * lanes)), lanes) for j in range(nv)])
            return values

        full = builder.icmp_signed(">=", channels, I64(nv * lanes))
        conditional(builder, full, [], whole)
        conditional(builder, builder.not_(full), [], part)

    return micro_kernel(f"channel_group_{nv}", 7, body)
