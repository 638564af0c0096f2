"""Which routines can compute a problem here, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from softneuro.codegen.target import Target
from softneuro.ops.base import Op
from softneuro.problem import Problem
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.routines.table import ROUTINES
from softneuro.types import Format

__all__ = ["Candidate", "Rejection", "candidates", "reference_routine", "rejections", "routine_named"]


@dataclass(frozen=True)
class Candidate:
    """A routine with the formats and schedule it would run with."""

    routine: Routine
    signature: Signature
    schedule: Schedule


@dataclass(frozen=True)
class Rejection:
    """A routine that cannot compute the problem, and the reason as a sentence."""

    routine: Routine
    reason: str


def _row_major(problem: Problem) -> tuple[Signature, ...]:
    inputs = tuple(None if t is None else Format.row_major(t) for t in problem.inputs)
    return (Signature(inputs, tuple(Format.row_major(t) for t in problem.outputs)),)


def reference_routine(op: type[Op]) -> Routine:
    """The op's numpy reference as a routine: row-major, on the host, always possible."""
    return Routine(
        name=f"{op.name}.reference",
        op=op,
        reject=lambda problem, target: None,
        signatures=_row_major,
        build=lambda problem, signature, schedule, target: Built(host=True),
    )


def _accepted(problem: Problem, target: Target, table: Mapping[type[Op], tuple[Routine, ...]]) -> Iterator[Routine]:
    for routine in table.get(type(problem.op), ()):
        if _reason(routine, problem, target) is None:
            yield routine


def candidates(problem: Problem, target: Target,
               table: Mapping[type[Op], tuple[Routine, ...]] = ROUTINES) -> tuple[Candidate, ...]:
    """Every way to compute the problem, in the table's order; the reference alone when there is no other."""
    found = tuple(
        Candidate(routine, signature, schedule)
        for routine in _accepted(problem, target, table)
        for signature in routine.signatures(problem)
        for schedule in routine.schedules(problem, target)
    )
    if found:
        return found
    reference = reference_routine(type(problem.op))
    return (Candidate(reference, reference.signatures(problem)[0], {}),)


def rejections(problem: Problem, target: Target,
               table: Mapping[type[Op], tuple[Routine, ...]] = ROUTINES) -> tuple[Rejection, ...]:
    """The routines that are no candidates for the problem, with their reasons."""
    reasons = ((routine, _reason(routine, problem, target)) for routine in table.get(type(problem.op), ()))
    return tuple(Rejection(routine, reason) for routine, reason in reasons if reason is not None)


def _reason(routine: Routine, problem: Problem, target: Target) -> str | None:
    return routine.reject(problem, target) or routine.unpromising(problem, target)


def routine_named(name: str, op: type[Op]) -> Routine | None:
    """The routine of an op by name (its reference included), or None."""
    if name == f"{op.name}.reference":
        return reference_routine(op)
    return next((routine for routine in ROUTINES.get(op, ()) if routine.name == name), None)
