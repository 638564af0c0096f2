"""Transposed convolution whose windows lie side by side (kernel equal to stride), channels first, float32.

Every tap is then a filter of its own: one matrix product over all input pixels, whose planes are afterwards woven
into the output. With vectors along the pixels it fits outputs of few channels, such as the maps at a model's end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.problem import Problem
from softneuro.routines.conv_direct_chf import filter_tiles_of, pixel_tiles
from softneuro.routines.formats import F32_CHF
from softneuro.routines.linear import bias_of, packed_signature, reject_convolution, reject_large_image, weights_of
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
from softneuro.types import Array

__all__ = ["CONV_TRANSPOSE_DIRECT_F32_CHF"]


def _reject(problem: Problem, target: Target) -> str | None:
    reason = reject_convolution(problem) or reject_large_image(problem)
    if reason is not None:
        return reason
    op, kernel = cast(ConvTranspose, problem.op), problem.input(1).shape[2:]
    if len(kernel) != 2:
        return f"found {len(kernel)} spatial axes, needed 2"
    if op.groups != 1:
        return f"found {op.groups} groups, needed 1"
    if kernel != op.strides or any(dilation != 1 for dilation in op.dilations):
        return f"found windows of {kernel} at strides of {op.strides}, needed them side by side"
    if any(op.pads) or any(op.output_padding):
        return f"found pads {op.pads} and output padding {op.output_padding}, needed none"
    if op.epilogue.residual:
        return "found a residual, needed none"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHF, F32_CHF),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    return pixel_tiles(target, math.prod(problem.input(1).shape[1:]), math.prod(problem.input(0).shape[2:]))


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    weights, kt = weights_of(values), schedule["kt"]
    repeated = np.repeat(bias_of(problem, values, weights.shape[1]), math.prod(weights.shape[2:]))
    return (filter_tiles_of(weights.reshape(weights.shape[0], -1).T, 1, kt),
            filter_tiles_of(repeated.reshape(-1, 1), 1, kt))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    images, channels, height, width = problem.input(0).shape
    filters, kernel_h, kernel_w = problem.input(1).shape[1:]
    pixels = height * width
    offsets = (np.arange(channels) * (4 * pixels)).astype(np.int32)
    planes = scratch()
    epilogue = str(cast(ConvTranspose, problem.op).epilogue)
    words = (
        source(0), planes, packed(0), packed(1), table(0), 0, images, 1, filters * kernel_h * kernel_w, channels,
        1, pixels, channels * pixels * 4, channels * pixels * 4, 0, schedule["weights_first"],
    )  # fmt: skip
    product = KernelSpec.of("direct_chf", kt=schedule["kt"], nv=schedule["nv"], epilogue=epilogue)
    weave = KernelSpec.of("interleave_rows", height_factor=kernel_h, width_factor=kernel_w)
    launches = (Launch(product, words), Launch(weave, (planes, target_of(0), images * filters, height, width)))
    return Built(launches=launches, tables=(offsets,), scratch=problem.outputs[0].nbytes)


CONV_TRANSPOSE_DIRECT_F32_CHF = Routine(
    name="conv_transpose.direct.f32.chf",
    op=ConvTranspose,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
