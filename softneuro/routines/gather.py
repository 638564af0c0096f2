"""Gather as row copies, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.gather import Gather
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import reject_unmovable
from softneuro.types import DType

__all__ = ["GATHER_ROWS_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, indices = problem.input(0), problem.input(1)
    axis = normal_axis(cast(Gather, problem.op).axis, x.rank)
    length = x.dtype.itemsize * math.prod(x.shape[axis + 1 :])
    if not problem.outputs[0].size:
        return Built()
    kernel = KernelSpec.of("gather", wide=indices.dtype is DType.I64)
    words = (source(0), source(1), target_of(0), math.prod(x.shape[:axis]), x.shape[axis], indices.size, length)
    return Built(launches=(Launch(kernel, words),))


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    if problem.outputs[0].size and not x.size:
        return f"found {x}, needed rows to pick from"
    return reject_unmovable(problem, target)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


GATHER_ROWS_ANY = Routine(name="gather.rows.any.chf", op=Gather, reject=_reject, signatures=_signatures, build=_build)
