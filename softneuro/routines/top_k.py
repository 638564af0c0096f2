"""TopK by heaps over parts of each line, which are then merged; any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.top_k import TopK
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.ordered import reject_unordered
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, scratch, source, target_of

__all__ = ["TOP_K_HEAP_ANY"]

_WORTH_A_PART = 1024
"""Elements of a line for which a second thread is woken."""


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(TopK, problem.op), problem.input(0)
    assert op.k is not None
    axis = normal_axis(op.axis, x.rank)
    length, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = math.prod(x.shape[:axis]) * inner
    parts = min(math.ceil(problem.threads / lines), math.ceil(length / _WORTH_A_PART))
    lists = lines * parts * op.k * 8
    shared = (lines, parts, length, op.k, inner, x.dtype.itemsize)
    heaps = (source(0), scratch(0), scratch(lists), *shared, 0 if op.largest else -1)
    merge = (source(0), scratch(0), scratch(lists), *shared, target_of(0), target_of(1), scratch(2 * lists))
    return Built(launches=(Launch(KernelSpec.of("top_k", dtype=x.dtype.value), heaps),
                           Launch(KernelSpec.of("top_k_merge"), merge)),
                 scratch=2 * lists + lines * parts * 8)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


TOP_K_HEAP_ANY = Routine(name="top_k.heap.any.chf", op=TopK, reject=reject_unordered, signatures=_signatures, build=_build)
