"""Depthwise convolution, channels last, of bytes: exact sums of 8-bit products, float32 from there to the store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.depthwise_rows import BYTE_PARAMETERS, axis_uses, byte_widths, rows_together, weight_groups
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.byte_weights import signed_bytes
from softneuro.routines.conv_depthwise_chl import reject_depthwise
from softneuro.routines.linear import bias_of, packed_signature, residual_word, weights_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_DEPTHWISE_QINT8_CHL"]

_VECTORS = 4
_TILES = ((2, 3), (2, 2), (1, 4), (4, 1), (1, 2), (2, 1), (1, 1))
_SPARE_REGISTERS = 8  # beside the sums: what a column of the window becomes, and what it is made from
_UNITS_PER_THREAD = 4
_WEIGHT_BYTES = 16 << 10  # that stay in the nearest cache while tiles pass
_LARGEST_FACTOR, _LARGEST_BIAS = 500.0, 2.0**29  # in steps of the output: beyond, every sum saturates, and none overflows
_BYTES, _FLOATS = Format(DType.QINT8, Layout.CHL), Format(DType.F32, Layout.CHL)


def _reject(problem: Problem, target: Target) -> str | None:
    reason = reject_depthwise(problem, target)
    if reason is None and problem.input_quantisation(0) is None:
        return "found no quantisation of the input, needed one"
    return reason


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    floats = packed_signature(problem, _BYTES, _FLOATS)
    residual = cast(Conv, problem.op).epilogue.residual
    known = problem.output_quantisation() and not (residual and problem.input_quantisation(len(problem.inputs) - 1) is None)
    return (packed_signature(problem, _BYTES, _BYTES), floats) if known else (floats,)


def _widths(channels: int, target: Target) -> list[int]:
    """Vectors that are no wider than the channels, those that waste least first: the last one overlaps the one before it."""
    widths = byte_widths(target)
    fitting = [width for width in widths if width <= channels] or [widths[-1]]
    vectors = {width: math.ceil(channels / width) for width in fitting}
    return sorted(fitting, key=lambda width: (vectors[width], -width))


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    height, width = problem.outputs[0].shape[2:]
    most = (target.registers - _SPARE_REGISTERS) // _VECTORS
    tiles = [(rt, ot) for rt, ot in _TILES if rt * ot <= most and rt <= height and ot <= width] or [(1, 1)]
    widths = _widths(problem.input(0).shape[1], target)
    found = [(rt, ot, widths[0]) for rt, ot in tiles[:4]] + [(*tiles[0], other) for other in widths[1:2]]
    return tuple({"rt": rt, "ot": ot, "width": lanes} for rt, ot, lanes in found)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """Weights, parameters, numbers and padding as `kernels.depthwise_bytes` reads them."""
    weights, scale = signed_bytes(weights_of(values))
    channels, width = weights.shape[0], schedule["width"]
    x, y = problem.input_quantisation(0), problem.output_quantisation()
    assert x is not None
    unit = scale * np.float32(x.scale)
    bias = bias_of(problem, values, channels).astype(np.float32)
    step = np.float32(y.scale if y else 1.0)
    start = -x.zero * weights.reshape(channels, -1).sum(axis=1, dtype=np.int32)
    factor = np.minimum(unit / step, np.float32(_LARGEST_FACTOR))
    offset = np.clip(bias / step, -_LARGEST_BIAS, _LARGEST_BIAS)
    columns = np.stack([start.view(np.float32), unit, bias, factor, offset]).astype(np.float32)
    assert len(columns) == BYTE_PARAMETERS
    padding = np.full(max(channels, width), x.zero, np.uint8)
    return _grouped(problem, schedule, target, weights), _blocks(columns, width), _numbers(problem), padding


def _blocks(columns: Array, width: int) -> Array:
    """(n, channels) as [block][n][4 vectors][lane], in the order of `codegen.byte_lanes`."""
    count, channels = columns.shape
    starts = [min(first, max(channels - width, 0)) for first in range(0, channels, width)]
    filled = np.zeros((count, max(channels, width)), columns.dtype)
    filled[:, :channels] = columns
    blocks = np.stack([filled[:, start : start + width] for start in starts])
    ordered = blocks.reshape(len(starts), count, width // 16, _VECTORS, 4).swapaxes(2, 3)
    result = aligned_empty((len(starts), count, _VECTORS, width // _VECTORS), columns.dtype)
    result[...] = ordered.reshape(result.shape)
    return result


def _grouped(problem: Problem, schedule: Schedule, target: Target, weights: Array) -> Array:
    """Signed bytes (channels, 1, h, w) as [block][group][4 vectors][lane][row of the group]."""
    op, size = cast(Conv, problem.op), rows_together(target)
    kernel_h, kernel_w = weights.shape[2:]
    rows = axis_uses(schedule["rt"], kernel_h, op.strides[0], op.dilations[0])
    groups = list(weight_groups(rows, size, schedule["rt"], kernel_w))
    element = np.dtype(np.int8 if size == 4 else np.int16)
    listed = np.zeros((len(groups) * size, weights.shape[0]), element)
    for index, group in enumerate(groups):
        for row, tap in enumerate(group.taps):
            if tap is not None:
                listed[index * size + row] = weights[:, 0, tap, group.column]
    blocks = _blocks(listed, schedule["width"])
    ordered = blocks.reshape(len(blocks), len(groups), size, *blocks.shape[2:]).transpose(0, 1, 3, 4, 2)
    result = aligned_empty(ordered.shape, element)
    result[...] = ordered
    return result


def _numbers(problem: Problem) -> Array:
    """Scale and zero point of the output and of the residual, 1 / scale, and the output's bounds in bytes."""
    epilogue, y = cast(Conv, problem.op).epilogue, problem.output_quantisation() or Quantisation(1.0, 0)
    residual = (problem.input_quantisation(len(problem.inputs) - 1) if epilogue.residual else None) or Quantisation(1.0, 0)
    low, high = {"relu": (0.0, math.inf), "clip": epilogue.parameters}.get(epilogue.activation, (-math.inf, math.inf))
    steps = [np.rint(np.float32(bound) / np.float32(y.scale)) + y.zero for bound in (low, high)]
    bounds = np.clip(steps, 0, 255)
    return np.array([y.scale, y.zero, residual.scale, residual.zero, 1.0 / y.scale, *bounds], np.float32)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Conv, problem.op)
    images, channels, height, width = problem.input(0).shape
    out_height, out_width = problem.outputs[0].shape[2:]
    kernel_h, kernel_w = problem.input(1).shape[2:]
    rt, ot, lanes = schedule["rt"], schedule["ot"], schedule["width"]
    kernel = KernelSpec.of(
        "depthwise_bytes", kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.strides[0], stride_w=op.strides[1],
        dilation_h=op.dilations[0], dilation_w=op.dilations[1], rt=rt, ot=ot, width=lanes, masked=channels < lanes,
        wanted=signature.outputs[0].dtype.value, epilogue=str(op.epilogue),
    )  # fmt: skip
    blocks = math.ceil(channels / lanes)
    rows = axis_uses(rt, kernel_h, op.strides[0], op.dilations[0])
    block_bytes = _VECTORS * lanes * sum(1 for _ in weight_groups(rows, rows_together(target), rt, kernel_w))
    tiles = images * math.ceil(out_height / rt) * math.ceil(out_width / ot)
    wanted = problem.threads * _UNITS_PER_THREAD if problem.threads > 1 else 1
    chunks = min(blocks, max(math.ceil(wanted / max(tiles, 1)), math.ceil(blocks * block_bytes / _WEIGHT_BYTES)))
    words = (source(0), target_of(0), packed(0), packed(1), packed(2), packed(3), residual_word(problem), images, channels,
             height, width, out_height, out_width, op.pads[0], op.pads[1], chunks)
    return Built((Launch(kernel, words),))


CONV_DEPTHWISE_QINT8_CHL = Routine(
    name="conv.depthwise.qint8.chl", op=Conv, reject=_reject, signatures=_signatures, schedules=_schedules, pack=_pack,
    build=_build, packs=(1, 2), computes=DType.QINT8)
