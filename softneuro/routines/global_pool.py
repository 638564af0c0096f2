"""Average and maximum over all spatial axes, one pass over the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pool import GlobalPool
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL, reject_unless_f32, row_major_signature
from softneuro.routines.narrow import narrow_dtypes, numbers_of, stored_dtype
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of
from softneuro.types import Array, DType, Format, Layout

__all__ = ["GLOBAL_POOL_MEAN_BF16_CHL", "GLOBAL_POOL_MEAN_F16_CHL", "GLOBAL_POOL_MEAN_F32_CHF", "GLOBAL_POOL_MEAN_F32_CHL",
           "GLOBAL_POOL_MEAN_QINT8_CHL"]

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
    words = (source(0), target_of(0), x.shape[0], math.prod(x.shape[2:]), x.shape[1], packed(0), packed(1))
    kernel = KernelSpec.of("global_pool_chl", kind=cast(GlobalPool, problem.op).kind, nv=schedule["nv"],
                           found=stored_dtype(signature).value, wanted=signature.outputs[0].dtype.value)
    return Built((Launch(kernel, words),))


def _build_chf(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x = problem.input(0)
    words = (source(0), target_of(0), x.shape[0] * x.shape[1], math.prod(x.shape[2:]))
    return Built((Launch(KernelSpec.of("global_pool_chf", kind=cast(GlobalPool, problem.op).kind), words),))


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    return numbers_of(problem.input_quantisation(0)), numbers_of(problem.output_quantisation())


def _refused_dtype(problem: Problem, target: Target, dtype: DType) -> str | None:
    reason = _reject_chl(problem, target)
    if reason is not None or dtype is DType.F32 or dtype in narrow_dtypes(problem):
        return reason
    return f"found no quantisations for {dtype}, needed those of input and output"


def _chl_routine(dtype: DType) -> Routine:
    """Outputs of the input's data type, or of float32."""
    own = Format(dtype, Layout.CHL)
    return Routine(
        name=f"global_pool.mean.{dtype}.chl", op=GlobalPool,
        reject=lambda problem, target: _refused_dtype(problem, target, dtype),
        signatures=lambda problem: tuple(Signature((own,), (y,)) for y in dict.fromkeys((own, F32_CHL))),
        schedules=_schedules_chl, build=_build_chl, pack=_pack, tolerance=8.0)


GLOBAL_POOL_MEAN_F32_CHL = _chl_routine(DType.F32)
GLOBAL_POOL_MEAN_BF16_CHL = _chl_routine(DType.BF16)
GLOBAL_POOL_MEAN_F16_CHL = _chl_routine(DType.F16)
GLOBAL_POOL_MEAN_QINT8_CHL = _chl_routine(DType.QINT8)
GLOBAL_POOL_MEAN_F32_CHF = Routine(
    name="global_pool.mean.f32.chf",
    op=GlobalPool,
    reject=_reject,
    signatures=_signatures_chf,
    build=_build_chf,
    tolerance=8.0,
)
