"""Convolution of any rank, kernel, stride, dilation and groups as an indirect GEMM, channels last, float32.

After Dukhan, "The Indirect Convolution Algorithm" (2019): no patch matrix is made, each tap of each output pixel
finds its input row through a table. The table holds byte offsets into one image (negative: padding), so it is
shared by all contexts and images.
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
from softneuro.routines.formats import F32_CHL
from softneuro.routines.linear import (
    NUMBERS_OF_VECTORS,
    bias_of,
    itemsizes,
    packed_signature,
    panels_of,
    register_tiles,
    reject_convolution,
    reject_large_image,
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
    source,
    table,
    target_of,
)
from softneuro.routines.sizes import round_up
from softneuro.types import Array, Shape

__all__ = ["CONV_IGEMM_F32_CHL", "filters_last", "igemm_built", "igemm_schedules", "offset_table"]


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_convolution(problem) or reject_large_image(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (packed_signature(problem, F32_CHL, F32_CHL),)


def igemm_schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Tiles that pad the filters least first, then the widest for their number of loads."""
    filters = problem.input(1).shape[0] // cast(Conv, problem.op).groups
    vectors = math.ceil(filters / target.f32_lanes)
    widths = sorted(NUMBERS_OF_VECTORS, key=lambda nv: round_up(vectors, nv))
    return register_tiles(math.prod(problem.outputs[0].shape[2:]), vectors, target, widths)


def filters_last(weights: Array, groups: int) -> Array:
    """Weights (groups * k, c, *kernel) as a view (groups, taps, c, k)."""
    filters, channels = weights.shape[0] // groups, weights.shape[1]
    return weights.reshape(groups, filters, channels, math.prod(weights.shape[2:])).transpose(0, 3, 2, 1)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    groups, width = cast(Conv, problem.op).groups, schedule["nv"] * target.f32_lanes
    weights = weights_of(values)
    bias = bias_of(problem, values, weights.shape[0]).reshape(groups, -1)
    zero = np.zeros(weights.shape[1], np.float32)
    return panels_of(filters_last(weights, groups), width), panels_of(bias, width), zero


def offset_table(shape: Shape, kernel: Shape, output: Shape, op: Conv, mr: int, itemsize: int = 4) -> Array:
    """int32 [tile][tap][mr]: byte offset in an image of the input pixel under each tap, -1 in the padding.

    shape: (c, *spatial) of the input; output: spatial output sizes. itemsize: bytes of an element of the
    input. Rows past the last pixel repeat it.
    """
    offsets = np.zeros((1, 1), np.int32)  # taps, pixels
    inside: Array | None = None
    row_bytes = itemsize * math.prod(shape)
    for axis, size in enumerate(shape[1:]):
        row_bytes //= max(1, size)
        position = (np.arange(kernel[axis])[:, None] * op.dilations[axis] - op.pads[axis]
                    + np.arange(output[axis])[None, :] * op.strides[axis])
        valid = (position >= 0) & (position < size)
        step = np.where(valid, position * row_bytes, 0).astype(np.int32)
        joined = (offsets.shape[0] * kernel[axis], offsets.shape[1] * output[axis])
        if inside is not None or not valid.all():
            before = np.ones(offsets.shape, np.bool_) if inside is None else inside
            inside = (before[:, None, :, None] & valid[None, :, None, :]).reshape(joined)
        offsets = (offsets[:, None, :, None] + step[None, :, None, :]).reshape(joined)
    if inside is not None:
        offsets = np.where(inside, offsets, np.int32(-1))
    taps, pixels = offsets.shape
    tiles = math.ceil(pixels / mr)
    if tiles * mr > pixels:
        offsets = np.concatenate([offsets, np.repeat(offsets[:, -1:], tiles * mr - pixels, axis=1)], axis=1)
    return np.ascontiguousarray(offsets.reshape(taps, tiles, mr).transpose(1, 0, 2))


def igemm_built(problem: Problem, signature: Signature, schedule: Schedule, target: Target, steps: int,
                **literals: str | bool) -> Built:
    """The launch of the kernel for tensors kept as the signature says; ``steps`` and ``literals`` as the kernel has them."""
    op = cast(Conv, problem.op)
    x, w, y = problem.input(0), problem.input(1), problem.outputs[0]
    mr, nv = schedule["mr"], schedule["nv"]
    filters = w.shape[0] // op.groups
    read, written = itemsizes(signature)
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), packed(2), residual_word(problem),
        math.prod(y.shape[2:]), math.prod(w.shape[2:]), steps, filters,
        math.ceil(filters / (nv * target.f32_lanes)), op.groups, x.shape[0],
        read * math.prod(x.shape[1:]), written * math.prod(y.shape[1:]), written * y.shape[1], 0,
    )  # fmt: skip
    kernel = KernelSpec.of("igemm", mr=mr, nv=nv, epilogue=str(op.epilogue), **literals)
    offsets = offset_table(x.shape[1:], w.shape[2:], y.shape[2:], op, mr, read)
    return Built(launches=(Launch(kernel, words),), tables=(offsets,))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return igemm_built(problem, signature, schedule, target, problem.input(1).shape[1])


CONV_IGEMM_F32_CHL = Routine(
    name="conv.igemm.f32.chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=igemm_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
)
