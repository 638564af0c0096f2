"""Which routines can compute a problem here, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.ops.base import Op
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.routines.table import ROUTINES
from softneuro.types import DType

__all__ = ["Candidate", "Rejection", "candidates", "empty_routine", "narrow_dtypes_of", "reference_routine", "refusal",
           "rejections", "routine_named", "stored_dtypes"]


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


def reference_routine(op: type[Op]) -> Routine:
    """The op's numpy reference as a routine: row-major, on the host, always possible."""
    return Routine(
        name=f"{op.name}.reference",
        op=op,
        reject=lambda problem, target: None,
        signatures=lambda problem: (row_major_signature(problem),),
        build=lambda problem, signature, schedule, target: Built(host=True),
    )


def _is_empty(problem: Problem) -> bool:
    """Whether nothing is to be computed, not even another format of a tensor (which costs nothing for an empty one)."""
    return not any(t.size for t in problem.outputs) and not isinstance(problem.op, Adapt)


def _reject_elements(problem: Problem, target: Target) -> str | None:
    return None if _is_empty(problem) else f"found {', '.join(map(str, problem.outputs))}, needed no elements"


def empty_routine(op: type[Op]) -> Routine:
    """The routine of problems whose outputs have no elements: it reads nothing and launches nothing."""
    return Routine(
        name=f"{op.name}.empty",
        op=op,
        reject=_reject_elements,
        signatures=lambda problem: (Signature((None,) * len(problem.inputs), row_major_signature(problem).outputs),),
        build=lambda problem, signature, schedule, target: Built(),
    )


def _accepted(problem: Problem, target: Target, table: Mapping[type[Op], tuple[Routine, ...]]) -> Iterator[Routine]:
    for routine in table.get(type(problem.op), ()):
        if _reason(routine, problem, target) is None:
            yield routine


def candidates(problem: Problem, target: Target,
               table: Mapping[type[Op], tuple[Routine, ...]] = ROUTINES) -> tuple[Candidate, ...]:
    """Every way to compute the problem, in the table's order; the reference alone when there is no other.

    Where the outputs are empty, the `empty_routine` is the only one.
    """
    if _is_empty(problem):
        nothing = empty_routine(type(problem.op))
        return (Candidate(nothing, nothing.signatures(problem)[0], {}),)
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


def stored_dtypes(problem: Problem, signature: Signature) -> frozenset[DType]:
    """The data types other than their own that a signature keeps tensors as."""
    pairs = chain(zip(problem.inputs, signature.inputs, strict=False), zip(problem.outputs, signature.outputs, strict=True))
    return frozenset(f.dtype for t, f in pairs if t is not None and f is not None and f.dtype is not t.dtype)


def narrow_dtypes_of(problem: Problem, routine: Routine | None, signature: Signature) -> frozenset[DType]:
    """The data types other than their own that tensors are kept as, or that a routine rounds operands to."""
    kept = stored_dtypes(problem, signature)
    return kept if routine is None or routine.computes is None else kept | {routine.computes}


def rejections(problem: Problem, target: Target,
               table: Mapping[type[Op], tuple[Routine, ...]] = ROUTINES) -> tuple[Rejection, ...]:
    """The routines that are no candidates for the problem, with their reasons."""
    reasons = ((routine, _reason(routine, problem, target)) for routine in table.get(type(problem.op), ()))
    return tuple(Rejection(routine, reason) for routine, reason in reasons if reason is not None)


def refusal(routine: Routine, problem: Problem, target: Target) -> str | None:
    """Why a routine cannot compute the problem: no output, which `empty_routine` is for, or the routine's own reason."""
    if _is_empty(problem) and routine.name != empty_routine(type(problem.op)).name:
        return f"found {', '.join(map(str, problem.outputs))}, needed at least one element"
    return routine.reject(problem, target)


def _reason(routine: Routine, problem: Problem, target: Target) -> str | None:
    return refusal(routine, problem, target) or routine.unpromising(problem, target)


def routine_named(name: str, op: type[Op]) -> Routine | None:
    """The routine of an op by name (those that every op has included), or None."""
    listed = next((routine for routine in ROUTINES.get(op, ()) if routine.name == name), None)
    return listed or next((routine for routine in (empty_routine(op), reference_routine(op)) if routine.name == name), None)
