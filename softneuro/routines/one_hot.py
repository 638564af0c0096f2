"""OneHot of integer indices, values of any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.one_hot import OneHot
from softneuro.ops.tuples import INDEX_TYPES
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import reject_unmovable
from softneuro.types import DType

__all__ = ["ONE_HOT_FILL_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, indices = cast(OneHot, problem.op), problem.input(0)
    axis = normal_axis(op.axis, indices.rank + 1)
    assert op.depth is not None
    kernel = KernelSpec.of("one_hot", size=problem.input(1).dtype.itemsize, wide=indices.dtype is DType.I64)
    words = (source(0), source(1), target_of(0), math.prod(indices.shape[:axis]), op.depth, math.prod(indices.shape[axis:]))
    return Built(launches=(Launch(kernel, words),))


def _reject(problem: Problem, target: Target) -> str | None:
    dtype = problem.input(0).dtype
    return reject_unmovable(problem, target) if dtype in INDEX_TYPES else f"found {dtype} indices, needed i32 or i64"


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


ONE_HOT_FILL_ANY = Routine(name="one_hot.fill.any.chf", op=OneHot, reject=_reject, signatures=_signatures, build=_build)
