"""CumSum by lines, numbers of any type that kernels compute with, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.cumulate import CumSum
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.types import DType

__all__ = ["CUM_SUM_LINES_ANY"]

_NUMBERS = (DType.F32, DType.F64, DType.I32, DType.U32, DType.I64, DType.U64)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(CumSum, problem.op), problem.input(0)
    assert op.axis is not None
    axis = normal_axis(op.axis, x.rank)
    words = (source(0), target_of(0), math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]),
             int(op.reverse), int(op.exclusive))
    return Built(launches=(Launch(KernelSpec.of("cum_sum", dtype=x.dtype.value), words),))


def _reject(problem: Problem, target: Target) -> str | None:
    dtype = problem.input(0).dtype
    return None if dtype in _NUMBERS else f"found {dtype}, needed one of {', '.join(_NUMBERS)}"


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


CUM_SUM_LINES_ANY = Routine(name="cum_sum.lines.any.chf", op=CumSum, reject=_reject, signatures=_signatures, build=_build,
                            tolerance=64.0)
