"""Trilu as copies of parts of rows, any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.trilu import Trilu
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import reject_unmovable

__all__ = ["TRILU_ROWS_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(Trilu, problem.op), problem.input(0)
    *outer, rows, columns = x.shape
    k = min(max(op.k, -rows - 1), columns + 1)  # beyond these nothing changes
    words = (source(0), target_of(0), math.prod(outer) * rows, rows, columns, x.dtype.itemsize, k, int(op.upper))
    return Built(launches=(Launch(KernelSpec.of("trilu"), words),))


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


TRILU_ROWS_ANY = Routine(name="trilu.rows.any.chf", op=Trilu, reject=reject_unmovable, signatures=_signatures, build=_build)
