"""The choice for a layer when nothing was measured: the table's first routine, in formats that spare conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softneuro.codegen.target import Target
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.candidates import Candidate, candidates, narrow_dtypes_of
from softneuro.types import Format

__all__ = ["choice_of", "default_choice"]


def choice_of(candidate: Candidate) -> Choice:
    """The choice that a plan stores for a candidate."""
    return Choice(candidate.routine.name, candidate.signature, dict(candidate.schedule))


def default_choice(problem: Problem, target: Target, available: Callable[[int], Sequence[Format]]) -> Choice:
    """The first routine of the table for layers that compute; for the others, the one with the fewest bytes to convert.
    Tensors keep their own data types, and so do operands.

    available(i) are the formats in which input i exists already.
    """
    order: dict[str, int] = {}

    def cost(candidate: Candidate) -> tuple[int, int]:
        rank = order.setdefault(candidate.routine.name, len(order))
        converted = sum(
            type_.nbytes
            for index, (type_, format_) in enumerate(zip(problem.inputs, candidate.signature.inputs, strict=False))
            if type_ is not None and format_ is not None and format_ not in available(index)
        )
        return (rank, converted) if problem.macs() else (converted, rank)

    own = [c for c in candidates(problem, target) if not narrow_dtypes_of(problem, c.routine, c.signature)]
    return choice_of(min(own, key=cost))
