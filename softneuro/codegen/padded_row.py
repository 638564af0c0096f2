"""Rows of a channels-first plane with their padding written out, so that windows become plain vector loads.

With a stride of s along the row, its columns are dealt out to s *phases*: element j of phase p is column
``s * j + p`` of the padded row. A vector of output columns then reads consecutive elements under every tap.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import register_jitable

from softneuro.codegen.bulk import fill_bytes
from softneuro.codegen.emit import I64, byte_offset, load_at, load_lanes, store_lanes
from softneuro.codegen.memory import load_f32, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, VectorType, build_intrinsic, first_lanes, vectors

__all__ = ["padded_row"]


def _take_even(lanes: int) -> Any:
    """The intrinsic ``take_even(destination, source, count, available)`` for float32 vectors.

    Stores elements 0, 2, 4, ... of ``source``, at most ``lanes`` and at most ``count``; of the source only the
    first ``available`` elements are read.
    """
    vector = ir.VectorType(F32, lanes)
    even = ir.Constant(ir.VectorType(I32, lanes), list(range(0, 2 * lanes, 2)))

    def generate(builder: Any, args: list[Any]) -> None:
        destination, source, count, available = args
        halves = [load_lanes(builder, byte_offset(builder, source, 4 * lanes * i), vector,
                             first_lanes(builder, builder.sub(available, I64(i * lanes)), lanes)) for i in range(2)]
        store_lanes(builder, builder.shuffle_vector(*halves, even), byte_offset(builder, destination, 0),
                    first_lanes(builder, count, lanes))

    return build_intrinsic(types.void, [types.int64] * 4, generate)


def _load_even(lanes: int) -> Any:
    """The intrinsic ``load_even(address)``: every second float32 of the 2 * lanes there, beginning with the first."""
    vector = ir.VectorType(F32, lanes)
    even = ir.Constant(ir.VectorType(I32, lanes), list(range(0, 2 * lanes, 2)))

    def generate(builder: Any, args: list[Any]) -> Any:
        low, high = (load_at(builder, byte_offset(builder, args[0], 4 * lanes * i), vector) for i in range(2))
        return builder.shuffle_vector(low, high, even)

    return build_intrinsic(VectorType(F32, lanes), [types.int64], generate)


def padded_row(target: Target, stride: int) -> Any:
    """The function ``write(destination, source, width, pad, pitch, margins)`` for use inside kernels.

    Writes [stride][pitch] float32: the ``width`` elements of ``source`` after ``pad`` zeros, and zeros after them
    as far as the pitch goes; columns beyond it are dropped. With width 0 all are zeros. With ``margins`` 0 the
    zeros are left out, for memory that has them already.
    """
    lanes, v = target.f32_lanes, vectors(target)
    load, store, load_n, store_n, zero = v.load, v.store, v.load_n, v.store_n, fill_bytes(target)
    load_even, take_even = _load_even(lanes), _take_even(lanes)

    @register_jitable
    def take(destination: int, source: int, count: int, available: int) -> None:
        """Every ``stride``-th of the ``available`` elements at ``source``."""
        done = 0
        if stride == 1:
            while done + lanes <= count:
                store(destination + 4 * done, load(source + 4 * done))
                done += lanes
            if done < count:
                store_n(destination + 4 * done, load_n(source + 4 * done, count - done), count - done)
        elif stride == 2:
            while done + lanes <= count and 2 * (done + lanes) <= available:
                store(destination + 4 * done, load_even(source + 8 * done))
                done += lanes
            if done < count:
                take_even(destination + 4 * done, source + 8 * done, count - done, available - 2 * done)
        else:
            for i in range(count):
                store_f32(destination, i, load_f32(source, i * stride))

    @register_jitable
    def write(destination: int, source: int, width: int, pad: int, pitch: int, margins: int) -> None:
        for phase in range(stride):
            line = destination + 4 * pitch * phase
            end = min(pitch, (max(0, width + pad - phase) + stride - 1) // stride) if width > 0 else 0
            first = min(end, (max(0, pad - phase) + stride - 1) // stride)
            skipped = first * stride + phase - pad
            take(line + 4 * first, source + 4 * skipped, end - first, width - skipped)
            if margins:
                zero(line, 4 * first, 0)
                zero(line + 4 * end, 4 * (pitch - end), 0)

    return write
