"""Convolution of a picture with few channels, read channels first and written channels last, in float32.

A network's input comes channels first and its inner layers are fastest channels last; this routine spares the
conversion between them, and with so few channels the rows of the kernel, not the channels, are what is contiguous.
What it writes may be kept as bfloat16 or as bytes, which spares another conversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.first_layer import FirstLayer, reject_first_layer
from softneuro.routines.formats import F32_CHF
from softneuro.routines.linear import (
    NUMBERS_OF_VECTORS,
    bias_of,
    finish_numbers,
    finished_dtypes,
    packed_signature,
    panels_of,
    register_tiles,
    residual_word,
    weights_of,
)
from softneuro.routines.routine import (
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    packed,
    scratch,
    source,
    table,
    target_of,
)
from softneuro.routines.sizes import round_up
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_FIRST_F32_CHF_CHL"]

_MOST_CHANNELS = 16
_TILES_AT_ONCE = 16
"""Tiles of pixels that share a panel of weights while it is in the first-level cache."""


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_first_layer(problem, _MOST_CHANNELS)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return tuple(packed_signature(problem, F32_CHF, Format(kept, Layout.CHL)) for kept in finished_dtypes(problem))


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles whose filters waste no vector; their pixels divide a row as evenly as can be."""
    vectors = math.ceil(problem.outputs[0].shape[1] / target.f32_lanes)
    widths = [nv for nv in NUMBERS_OF_VECTORS if round_up(vectors, nv) == vectors]
    return register_tiles(problem.outputs[0].shape[-1], vectors, target, widths)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """Each kernel row of each channel is a tap, its columns are the depth."""
    weights, width = weights_of(values), schedule["nv"] * target.f32_lanes
    filters, channels, *kernel = weights.shape
    rows = weights.reshape(1, filters, channels * math.prod(kernel[:-1]), kernel[-1])
    bias = bias_of(problem, values, filters)
    return panels_of(rows.transpose(0, 2, 3, 1), width), panels_of(bias.reshape(1, -1), width), finish_numbers(problem)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    y = problem.outputs[0]
    mr, nv, lanes = schedule["mr"], schedule["nv"], target.f32_lanes
    (images, channels, height, width, kernel_rows, kernel_columns, out_height, out_width, row_stride, column_stride, above, left,
     dilation, span) = FirstLayer.of(problem)
    tiles_across = min(_TILES_AT_ONCE, math.ceil(out_width / mr))
    rows_at_once = min(out_height, max(1, _TILES_AT_ONCE // tiles_across))
    columns = (tiles_across * mr - 1) * column_stride + kernel_columns
    buffer_row = 4 * round_up(columns, lanes)
    channel_rows = (rows_at_once - 1) * row_stride + span
    buffer_bytes = channels * channel_rows * buffer_row
    taps = (np.arange(channels)[:, None] * channel_rows + np.arange(kernel_rows) * dilation).reshape(-1, 1)
    offsets = (taps * buffer_row + np.arange(mr) * column_stride * 4).astype(np.int32)
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0),
        residual_word(problem), scratch(0), buffer_bytes, problem.threads, images, channels, height, width,
        channels * kernel_rows, kernel_columns, row_stride, column_stride, above, left, out_height, out_width,
        y.shape[1], math.ceil(y.shape[1] / (nv * lanes)), rows_at_once, tiles_across * mr, buffer_row, channel_rows,
        span, packed(2),
    )  # fmt: skip
    kept = signature.outputs[0].dtype
    narrow = {} if kept is DType.F32 else {"kept": kept.value}
    kernel = KernelSpec.of("conv_first", mr=mr, nv=nv, epilogue=str(op.epilogue), **narrow)
    return Built((Launch(kernel, words),), (offsets,), buffer_bytes * problem.threads)


CONV_FIRST_F32_CHF_CHL = Routine(
    name="conv.first.f32.chf_chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
