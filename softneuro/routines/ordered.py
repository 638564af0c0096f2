"""What routines that compare elements refuse first."""

from __future__ import annotations

from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.routines.strided import reject_unmovable
from softneuro.types import DType

__all__ = ["reject_unordered"]


def reject_unordered(problem: Problem, target: Target) -> str | None:
    """The reject of routines whose input 0 must have elements with an order."""
    if problem.input(0).dtype is DType.C64:
        return f"found {problem.input(0)}, needed elements with an order"
    return reject_unmovable(problem, target)
