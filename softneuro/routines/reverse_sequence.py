"""ReverseSequence as copies of steps, row-major."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.reverse_sequence import ReverseSequence
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import reject_unmovable

__all__ = ["REVERSE_SEQUENCE_STEPS_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, time_first = problem.input(0), cast(ReverseSequence, problem.op).time_first
    outer, inner = x.shape[:2]
    length = x.dtype.itemsize * math.prod(x.shape[2:])
    sequences, steps = (inner, outer) if time_first else (outer, inner)
    apart = (length, inner * length) if time_first else (inner * length, length)
    words = (source(0), source(1), target_of(0), sequences, steps, *apart, length)
    return Built(launches=(Launch(KernelSpec.of("reverse_sequence"), words),))


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


REVERSE_SEQUENCE_STEPS_ANY = Routine(name="reverse_sequence.steps.any.chf", op=ReverseSequence, reject=reject_unmovable,
                                     signatures=_signatures, build=_build)
