"""Convolution of a picture with few channels that is multiplied as bytes: read as float32, channels first, or as bytes.

A quantised network's input comes as floats; this routine spares their conversion, and joins the columns and channels under a
kernel row to one sum, so that few channels waste nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.byte_panels import STEP
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.byte_product import byte_signatures, byte_tiles, needs_bytes, packed_weights, reject_deep
from softneuro.routines.first_layer import FirstLayer, reject_first_layer
from softneuro.routines.formats import F32_CHF
from softneuro.routines.linear import residual_word, weights_of
from softneuro.routines.narrow import numbers_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, scratch, source, table, target_of
from softneuro.routines.sizes import round_up
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_FIRST_QINT8_CHL"]

_MOST_CHANNELS = 4
_BUFFER_BYTES = 24 << 10
"""Rows of bytes that a thread makes at once, so that they stay in the nearest cache."""
_PARTS_PER_THREAD = 2


def _reject(problem: Problem, target: Target) -> str | None:
    return (reject_first_layer(problem, _MOST_CHANNELS) or needs_bytes(problem)
            or reject_deep(math.prod(problem.input(1).shape[1:])))


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    """Read as floats or as bytes; what else the output is kept as is left to others."""
    inputs = (F32_CHF, Format(DType.QINT8, Layout.CHL))
    return tuple(s for x in inputs for s in byte_signatures(problem, x, Layout.CHL) if s.outputs[0].dtype is not DType.BF16)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    return byte_tiles(problem.outputs[0].shape[-1], problem.outputs[0].shape[1], target)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """Each kernel row is a tap; its columns and channels are the depth."""
    weights = weights_of(values)
    filters, channels, *kernel = weights.shape
    rows = weights.reshape(1, filters, channels, math.prod(kernel[:-1]), kernel[-1]).transpose(0, 1, 3, 4, 2)
    rows = rows.reshape(1, filters, rows.shape[2], kernel[-1] * channels)
    panels = packed_weights(problem, rows, values, schedule["nv"], target, whole=True)
    return *panels, numbers_of(problem.input_quantisation(0))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    y = problem.outputs[0]
    mr, nv, lanes, threads = schedule["mr"], schedule["nv"], target.f32_lanes, problem.threads
    (images, channels, height, width, kernel_rows, kernel_columns, out_height, out_width, row_stride, column_stride, above, left,
     dilation, span) = FirstLayer.of(problem)
    steps = math.ceil(kernel_columns * channels / STEP)
    columns = max((round_up(out_width, mr) - 1) * column_stride * channels + steps * STEP, (left + width + lanes) * channels)
    buffer_row = round_up(columns, STEP)
    fitting = (_BUFFER_BYTES // buffer_row - span) // row_stride + 1
    share = math.ceil(out_height / (threads * _PARTS_PER_THREAD)) if threads > 1 and images < threads else out_height
    rows_at_once = max(1, min(fitting, share, out_height))
    buffer_bytes = round_up(((rows_at_once - 1) * row_stride + span) * buffer_row, 64)
    taps = np.arange(kernel_rows)[:, None] * dilation * buffer_row
    offsets = (taps + np.arange(mr) * column_stride * channels).astype(np.int32)
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), residual_word(problem), packed(2), packed(3), scratch(0),
        buffer_bytes, threads, images, height, width, kernel_rows, steps, row_stride, column_stride * channels, above, left,
        out_height, out_width, y.shape[1], math.ceil(y.shape[1] / (nv * lanes)), rows_at_once, buffer_row, span,
    )  # fmt: skip
    kernel = KernelSpec.of(
        "conv_first_bytes", mr=mr, nv=nv, channels=channels, found=str(signature.inputs[0].dtype),  # type: ignore[union-attr]
        kept=signature.outputs[0].dtype.value, epilogue=str(op.epilogue))  # fmt: skip
    return Built((Launch(kernel, words),), (offsets,), buffer_bytes * threads)


CONV_FIRST_QINT8_CHL = Routine(
    name="conv.first.qint8.chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
    computes=DType.QINT8,
)
