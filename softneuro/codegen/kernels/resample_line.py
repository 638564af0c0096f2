"""The innermost axis of a float32 tensor as weighted sums of its input elements, several lines at a time.

Words: 0 source, 1 destination, 2 offsets (int64 [output][taps], bytes), 3 weights (float32 [output][taps]), 4 lines,
5 source bytes of a line, 6 outputs of a line, 7 taps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import register_jitable

from softneuro.codegen.memory import load_f32, load_i64, store_f32
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share lines, four of which use each offset and weight together."""
    two_taps, any_taps = _lines(pair=True), _lines(pair=False)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        if load_i64(args, 7) == 2:
            two_taps(args, tid, nthreads)
        else:
            any_taps(args, tid, nthreads)

    return kernel


def _lines(pair: bool) -> Any:
    """The kernel for any number of taps, or with ``pair`` for two."""

    @register_jitable
    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination = load_i64(args, 0), load_i64(args, 1)
        offsets, weights = load_i64(args, 2), load_i64(args, 3)
        lines, source_line, outputs, taps = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6), load_i64(args, 7)
        groups = (lines + 3) // 4
        for group in range(groups * tid // nthreads, groups * (tid + 1) // nthreads):
            line = 4 * group
            left = lines - line - 1  # the last group repeats its last line
            a = source + line * source_line
            b, c, d = a + min(1, left) * source_line, a + min(2, left) * source_line, a + min(3, left) * source_line
            y = destination + line * outputs * 4
            y1, y2, y3 = y + min(1, left) * outputs * 4, y + min(2, left) * outputs * 4, y + min(3, left) * outputs * 4
            for output in range(outputs):
                table, factors = offsets + output * taps * 8, weights + output * taps * 4
                o, w = load_i64(table, 0), load_f32(factors, 0)
                s, s1 = w * load_f32(a + o, 0), w * load_f32(b + o, 0)
                s2, s3 = w * load_f32(c + o, 0), w * load_f32(d + o, 0)
                for t in range(1, 2 if pair else taps):
                    o, w = load_i64(table, t), load_f32(factors, t)
                    s += w * load_f32(a + o, 0)
                    s1 += w * load_f32(b + o, 0)
                    s2 += w * load_f32(c + o, 0)
                    s3 += w * load_f32(d + o, 0)
                store_f32(y, output, s)
                store_f32(y1, output, s1)
                store_f32(y2, output, s2)
                store_f32(y3, output, s3)

    return kernel
