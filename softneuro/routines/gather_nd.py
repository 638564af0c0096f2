"""GatherND as slice copies, any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.gather_nd import GatherND
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of
from softneuro.routines.strided import byte_strides, reject_unmovable
from softneuro.types import DType, Layout

__all__ = ["GATHER_ND_SLICES_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, indices, b = problem.input(0), problem.input(1), cast(GatherND, problem.op).batch_dims
    depth = indices.shape[-1]
    axes = [*zip(x.shape, byte_strides(x, Layout.CHF), strict=True)][b : b + depth]
    words = (source(0), source(1), target_of(0), table(0), depth, math.prod(x.shape[:b]), math.prod(indices.shape[b:-1]),
             x.dtype.itemsize * math.prod(x.shape[b:]), x.dtype.itemsize * math.prod(x.shape[b + depth :]))
    kernel = KernelSpec.of("gather_nd", wide=indices.dtype is DType.I64)
    return Built(launches=(Launch(kernel, words),), tables=(np.array(axes, np.int64),))


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    return reject_unmovable(problem, target) if x.size else f"found {x}, needed elements to pick from"


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


GATHER_ND_SLICES_ANY = Routine(name="gather_nd.slices.any.chf", op=GatherND, reject=_reject, signatures=_signatures,
                               build=_build)
