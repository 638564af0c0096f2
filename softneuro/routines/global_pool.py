"""Average and maximum over all spatial axes, one pass over the input."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pool import GlobalPool
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL, reject_unless_f32, row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of

__all__ = ["GLOBAL_POOL_MEAN_F32_CHF", "GLOBAL_POOL_MEAN_F32_CHL"]

_MOST_VECTORS = 4


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    if math.prod(x.shape[2:]) == 0:
        return f"found an input of shape {x.shape}, needed at least one pixel"
    return reject_unless_f32(problem)


def _reject_chl(problem: Problem, target: Target) -> str | None:
    rank = problem.input(0).rank
    return f"found an input of rank {rank}, needed 3 or more" if rank < 3 else _reject(problem, target)


def _signatures_chf(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _schedules_chl(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """Vectors of channels at a time: as many as leave work for every thread, then fewer."""
    vectors = math.ceil(problem.input(0).shape[1] / target.f32_lanes)
    shared = math.ceil(vectors * problem.input(0).shape[0] / problem.threads)
    first = max(1, min(_MOST_VECTORS, shared, vectors))
    return tuple({"nv": nv} for nv in dict.fromkeys((first, max(1, first // 2))))


def _build_chl(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x = problem.input(0)
    words = (source(0), target_of(0), x.shape[0], math.prod(x.shape[2:]), x.shape[1])
    kernel = KernelSpec.of("global_pool_chl", kind=cast(GlobalPool, problem.op).kind, nv=schedule["nv"])
    return Built((Launch(kernel, words),))


def _build_chf(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x = problem.input(0)
    words = (source(0), target_of(0), x.shape[0] * x.shape[1], math.prod(x.shape[2:]))
    return Built((Launch(KernelSpec.of("global_pool_chf", kind=cast(GlobalPool, problem.op).kind), words),))


GLOBAL_POOL_MEAN_F32_CHL = Routine(
    name="global_pool.mean.f32.chl",
    op=GlobalPool,
    reject=_reject_chl,
    signatures=lambda problem: (Signature((F32_CHL,), (F32_CHL,)),),
    schedules=_schedules_chl,
    build=_build_chl,
    tolerance=8.0,
)
GLOBAL_POOL_MEAN_F32_CHF = Routine(
    name="global_pool.mean.f32.chf",
    op=GlobalPool,
    reject=_reject,
    signatures=_signatures_chf,
    build=_build_chf,
    tolerance=8.0,
)
