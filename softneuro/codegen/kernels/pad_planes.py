"""Channels-first planes copied with their padding written out, columns dealt out by the phase of the stride.

Words: 0 source, 1 destination, 2 planes, 3 height, 4 width, 5 padded rows, 6 top pad, 7 left pad, 8 pitch.
destination: float32 [plane][padded row][phase][pitch], see `softneuro.codegen.padded_row`.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64
from softneuro.codegen.padded_row import padded_row
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, stride: int) -> Callable[[int, int, int], None]:
    """The kernel for columns of a given stride; threads share all rows of all planes."""
    write = padded_row(target, stride)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, planes, height = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        width, padded, pad_top = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        pad_left, pitch = load_i64(args, 7), load_i64(args, 8)
        rows = planes * padded
        for unit in range(rows * tid // nthreads, rows * (tid + 1) // nthreads):
            plane = unit // padded
            row = unit - plane * padded - pad_top
            inside = row >= 0 and row < height
            write(destination + unit * stride * pitch * 4, source + (plane * height + row) * width * 4,
                  width if inside else 0, pad_left, pitch, 1)

    return kernel
