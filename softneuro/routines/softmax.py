"""Softmax and LogSoftmax over any axis in either layout, float32: largest element, exponentials and sum, division."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.softmax import Softmax
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL, memory_order, reject_unless_f32
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.types import Format

__all__ = ["SOFTMAX_ROWS_F32_CHF"]


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    if x.rank == 0 or x.size == 0:
        return f"found an input of shape {x.shape}, needed at least one axis and one element"
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    x = problem.input(0)
    formats = [Format.row_major(x)] + [F32_CHL] * (x.rank >= 3)
    return tuple(Signature((f,), (f,)) for f in formats)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Softmax, problem.op)
    x = problem.input(0)
    order = memory_order(x.rank, signature.outputs[0].layout)
    axis = order.index(normal_axis(op.axis, x.rank))
    sizes = [x.shape[i] for i in order]
    inner = math.prod(sizes[axis + 1 :])
    words = (source(0), target_of(0), math.prod(sizes[:axis]), sizes[axis], inner)
    return Built(launches=(Launch(KernelSpec.of("softmax", log=op.log), words),))


SOFTMAX_ROWS_F32_CHF = Routine(
    name="softmax.rows.f32.chf",
    op=Softmax,
    reject=_reject,
    signatures=_signatures,
    build=_build,
)
