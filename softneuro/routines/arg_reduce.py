"""Positions of largest and smallest elements, any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.reduce import ArgReduce
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.ordered import reject_unordered
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of

__all__ = ["ARG_REDUCE_LINES_ANY"]

_MOST = 2**31 - 1


def _reject(problem: Problem, target: Target) -> str | None:
    op, x = cast(ArgReduce, problem.op), problem.input(0)
    length = x.shape[normal_axis(op.axis, x.rank)]
    return f"found {length} elements, needed at most {_MOST}" if length > _MOST else reject_unordered(problem, target)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(ArgReduce, problem.op), problem.input(0)
    axis = normal_axis(op.axis, x.rank)
    kernel = KernelSpec.of("arg_reduce", dtype=x.dtype.value, smallest=op.kind == "min", last=op.select_last)
    words = (source(0), target_of(0), math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    return Built(launches=(Launch(kernel, words),))


ARG_REDUCE_LINES_ANY = Routine(name="arg_reduce.lines.any.chf", op=ArgReduce, reject=_reject, signatures=_signatures,
                               build=_build)
