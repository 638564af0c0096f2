"""Instance normalisation, float32: every channel of every image is a row of its own."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.norm import InstanceNorm
from softneuro.problem import Problem
from softneuro.routines.formats import reject_unless_f32, row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of

__all__ = ["INSTANCE_NORM_ROWS_F32_CHF"]


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    if x.size == 0:
        return f"found an input of shape {x.shape}, needed at least one element"
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    images, channels, *spatial = problem.input(0).shape
    words = (source(0), target_of(0), source(1), source(2), images * channels, math.prod(spatial), channels)
    kernel = KernelSpec.of("layer_norm", epsilon=float(cast(InstanceNorm, problem.op).epsilon), bias=True)
    return Built(launches=(Launch(kernel, words),))


INSTANCE_NORM_ROWS_F32_CHF = Routine(
    name="instance_norm.rows.f32.chf",
    op=InstanceNorm,
    reject=_reject,
    signatures=_signatures,
    build=_build,
    tolerance=8.0,
)
