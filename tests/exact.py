"""Routines whose results equal the reference's to the last bit: selections, moves and integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from oracle import execute

from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.routines.routine import Routine
from softneuro.types import Array, TensorType

__all__ = ["assert_exact", "problem_of"]


def problem_of(op: object, *feeds: Array | None, threads: int = 1) -> Problem:
    """The problem of an op on values."""
    types = tuple(None if v is None else TensorType.of(v) for v in feeds)
    return Problem.of(op, types, (False,) * len(types), threads)  # type: ignore[arg-type]


def assert_exact(routine: Routine, op: object, feeds: Sequence[Array | None], target: Target, threads: int = 1) -> None:
    """Every signature and schedule gives the reference's outputs."""
    problem = problem_of(op, *feeds, threads=threads)
    assert routine.reject(problem, target) is None
    want = problem.op.reference(feeds)
    assert tuple(map(TensorType.of, want)) == problem.outputs
    for signature in routine.signatures(problem):
        for schedule in routine.schedules(problem, target):
            found = execute(routine, problem, signature, schedule, target, feeds, threads)
            for got, expected in zip(found, want, strict=True):
                np.testing.assert_array_equal(got, expected)
