"""Adapt between layouts, and the copy kernels under it, against the op (which changes nothing)."""

from __future__ import annotations

import pytest
from oracle import cases, check, runnable_targets

from softneuro.codegen.target import avx2, host
from softneuro.ops.adapt import Adapt
from softneuro.problem import Problem
from softneuro.routines.adapt_blocked import ADAPT_BLOCKED_ANY
from softneuro.types import DType, TensorType


def adapt(shape: tuple[int, ...], dtype: DType = DType.F32) -> Problem:
    return Problem.of(Adapt(), (TensorType(dtype, shape),), (False,))


PROBLEMS = {
    "squares": adapt((1, 32, 8, 8)),
    "overlapping_squares": adapt((2, 37, 5, 9)),
    "columns_in_parts": adapt((1, 300, 3, 7)),
    "few_channels": adapt((2, 3, 11, 13)),
    "two_channels": adapt((1, 2, 9, 9)),
    "four_channels": adapt((2, 4, 5, 9)),
    "five_channels": adapt((1, 5, 5, 9)),
    "two_pixels": adapt((1, 50, 1, 2)),
    "two_by_two": adapt((3, 2, 2)),
    "two_by_three": adapt((1, 3, 2)),
    "one_channel": adapt((2, 1, 5, 5)),
    "one_pixel": adapt((2, 7, 1, 1)),
    "one_dimensional": adapt((2, 19, 23)),
    "three_dimensional": adapt((1, 18, 3, 4, 5)),
    "empty": adapt((0, 18, 3, 4)),
    "bytes": adapt((1, 33, 7, 7), DType.U8),
    "few_bytes": adapt((1, 3, 9, 31), DType.I8),
    "booleans": adapt((1, 9, 4, 4), DType.BOOL),
    "halves": adapt((2, 35, 5, 5), DType.F16),
    "three_halves": adapt((2, 3, 15, 15), DType.I16),
    "doubles": adapt((1, 19, 5, 5), DType.F64),
    "three_longs": adapt((1, 3, 7, 5), DType.I64),
}
CASES = cases(ADAPT_BLOCKED_ANY, PROBLEMS, runnable_targets())


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(ADAPT_BLOCKED_ANY, problem, signature, schedule, target)


@pytest.mark.parametrize("name", ["overlapping_squares", "few_channels", "columns_in_parts"])
def test_work_is_shared_by_threads(name: str) -> None:
    for signature in ADAPT_BLOCKED_ANY.signatures(PROBLEMS[name]):
        check(ADAPT_BLOCKED_ANY, PROBLEMS[name], signature, {}, host(), threads=3)


@pytest.mark.parametrize("name", ["one_channel", "one_pixel"])
def test_unmoved_memory_is_not_copied(name: str) -> None:
    for signature in ADAPT_BLOCKED_ANY.signatures(PROBLEMS[name]):
        assert ADAPT_BLOCKED_ANY.build(PROBLEMS[name], signature, {}, avx2()).alias == 0


@pytest.mark.parametrize(("problem", "reason"), [
    (adapt((3, 4)), "found rank 2, needed 3 or more"),
    (adapt((1, 3, 4), DType.C128), "found c128, needed elements of 1, 2, 4 or 8 bytes"),
    (adapt((1, 3, 4), DType.STR), "found str, needed elements of 1, 2, 4 or 8 bytes"),
])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert reason in (ADAPT_BLOCKED_ANY.reject(problem, host()) or "")
