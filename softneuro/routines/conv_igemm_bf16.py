"""The indirect GEMM of `conv_igemm` on tensors kept as bfloat16, channels last, with sums in float32.

Channels are multiplied in pairs where the target can. What it gives is kept as bfloat16 too, or as float32: a conversion spared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.operands import Operands
from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.brain import brain_literals, brain_panels_of
from softneuro.routines.conv_igemm import filters_last, igemm_built, igemm_schedules
from softneuro.routines.formats import F32_CHL
from softneuro.routines.linear import (
    bias_of,
    packed_signature,
    panels_of,
    reject_convolution,
    reject_large_image,
    weights_of,
)
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.types import Array, DType, Format, Layout

__all__ = ["CONV_IGEMM_BF16_CHL"]

_BF16_CHL = Format(DType.BF16, Layout.CHL)


def _operands(target: Target) -> Operands:
    return Operands(target, "bf16", "bf16")


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_convolution(problem) or reject_large_image(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return packed_signature(problem, _BF16_CHL, _BF16_CHL), packed_signature(problem, _BF16_CHL, F32_CHL)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    groups, width = cast(Conv, problem.op).groups, schedule["nv"] * target.f32_lanes
    weights = weights_of(values)
    bias = bias_of(problem, values, weights.shape[0]).reshape(groups, -1)
    zero = np.zeros(weights.shape[1], np.uint16)
    return brain_panels_of(filters_last(weights, groups), width, _operands(target)), panels_of(bias, width), zero


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    depth, operands = problem.input(1).shape[1], _operands(target)
    types = brain_literals(signature, operands, depth)
    return igemm_built(problem, signature, schedule, target, operands.steps(depth), **types)


CONV_IGEMM_BF16_CHL = Routine(
    name="conv.igemm.bf16.chl",
    op=Conv,
    reject=_reject,
    signatures=_signatures,
    schedules=igemm_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
    computes=DType.BF16,
)
