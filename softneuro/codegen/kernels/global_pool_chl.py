"""Average or maximum over all pixels with channels last: vectors of channels run down the pixels.

Words: 0 x, 1 y, 2 images, 3 pixels, 4 channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.elementary import exact_maximum_value
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_lanes, micro_kernel, store_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes, splat_value

__all__ = ["make"]

_BLOCK = 64  # pixels summed before they join the total, which keeps the rounding error small


def make(target: Target, kind: str, nv: int) -> Callable[[int, int, int], None]:
    """The kernel of ``max`` or ``average`` that takes ``nv`` vectors of channels at a time."""
    group = _channel_group(target, kind, nv)
    width = nv * target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, images = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        pixels, channels = load_i64(args, 3), load_i64(args, 4)
        groups = (channels + width - 1) // width
        units = images * groups
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            image = unit // groups
            first = (unit - image * groups) * width
            group(x + (image * pixels * channels + first) * 4, y + (image * channels + first) * 4, pixels,
                  channels * 4, channels - first)

    return kernel


def _channel_group(target: Target, kind: str, nv: int) -> Any:
    """The intrinsic ``group(x, y, pixels, pixel_bytes, channels)``; pixels >= 1, channels from x on >= 1."""
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    start = ir.Constant(vector, [0.0 if kind == "average" else -math.inf] * lanes)

    def combine(builder: Any, a: Any, b: Any) -> Any:
        return builder.fadd(a, b) if kind == "average" else exact_maximum_value(builder, a, b)

    def body(builder: Any, arguments: list[Any]) -> None:
        x, y, pixels, pixel_bytes, channels = arguments

        def fold(masks: list[Any]) -> None:
            blocks = builder.sdiv(builder.add(pixels, I64(_BLOCK - 1)), I64(_BLOCK))
            outer = CountedLoop(builder, blocks, [byte_offset(builder, x, 0), *[start] * nv])
            pointer, *totals = outer.carried
            left = builder.sub(pixels, builder.mul(outer.index, I64(_BLOCK)))
            count = builder.select(builder.icmp_signed("<", left, I64(_BLOCK)), left, I64(_BLOCK))
            inner = CountedLoop(builder, count, [pointer, *[start] * nv])
            pointer, *parts = inner.carried
            loaded = [load_lanes(builder, byte_offset(builder, pointer, j * 4 * lanes), vector, mask)
                      for j, mask in enumerate(masks)]
            inner.end([byte_offset(builder, pointer, pixel_bytes),
                       *(combine(builder, p, v) for p, v in zip(parts, loaded, strict=True))])
            pointer, *parts = inner.carried
            outer.end([pointer, *(combine(builder, t, p) for t, p in zip(totals, parts, strict=True))])
            for j, (total, mask) in enumerate(zip(outer.carried[1:], masks, strict=True)):
                if kind == "average":
                    total = builder.fdiv(total, splat_value(builder, builder.sitofp(pixels, F32), lanes))
                store_lanes(builder, total, byte_offset(builder, byte_offset(builder, y, 0), j * 4 * lanes), mask)

        def whole(values: list[Any]) -> list[Any]:
            fold([None] * nv)
            return values

        def part(values: list[Any]) -> list[Any]:
            fold([first_lanes(builder, builder.sub(channels, I64(j * lanes)), lanes) for j in range(nv)])
            return values

        full = builder.icmp_signed(">=", channels, I64(nv * lanes))
        conditional(builder, full, [], whole)
        conditional(builder, builder.not_(full), [], part)

    return micro_kernel(f"channel_group_{nv}", 5, body)
