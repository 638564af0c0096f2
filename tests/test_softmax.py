"""softmax.rows.f32.chf against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, execute, runnable_targets

from softneuro.ops.softmax import Softmax
from softneuro.problem import Problem
from softneuro.routines.softmax import SOFTMAX_ROWS_F32_CHF
from softneuro.types import DType, TensorType


def softmax(shape: tuple[int, ...], axis: int = -1, *, log: bool = False, dtype: DType = DType.F32) -> Problem:
    return Problem.of(Softmax(axis, log), (TensorType(dtype, shape),), (False,))


PROBLEMS = {
    "whole_vectors": softmax((3, 64)),
    "odd_number_of_vectors": softmax((3, 48)),
    "shorter_than_a_vector": softmax((5, 3)),
    "vectors_and_a_rest": softmax((2, 77)),
    "one_element": softmax((4, 1)),
    "one_axis": softmax((19,), 0),
    "attention": softmax((2, 3, 8, 33)),
    "channels_of_an_image": softmax((2, 21, 5, 7), 1),
    "rows_of_an_image": softmax((2, 5, 9, 18), 2),
    "first_axis": softmax((6, 40), 0),
    "log_rows": softmax((3, 50), log=True),
    "log_shorter_than_a_vector": softmax((3, 2), log=True),
    "log_columns": softmax((2, 7, 20), 1, log=True),
}
CASES = cases(SOFTMAX_ROWS_F32_CHF, PROBLEMS, runnable_targets())
TARGETS = runnable_targets()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(SOFTMAX_ROWS_F32_CHF, problem, signature, schedule, target)


@pytest.mark.parametrize("name", ["attention", "channels_of_an_image"])
def test_work_is_shared_by_threads(name: str) -> None:
    for _, problem, signature, schedule, target in cases(SOFTMAX_ROWS_F32_CHF, {name: PROBLEMS[name]}, TARGETS):
        check(SOFTMAX_ROWS_F32_CHF, problem, signature, schedule, target, threads=3)


SPECIAL = {
    "all_minus_infinity": [-np.inf] * 18,
    "some_minus_infinity": [-np.inf, 1.0, 2.0] * 6,
    "plus_infinity": [0.0] * 17 + [np.inf],
    "nan_first": [np.nan] + [1.0] * 17,
    "nan_in_the_rest": [1.0] * 17 + [np.nan],
    "large": [1e30, 3.0, -1e30] * 6,
    "far_below_zero": [-200.0, -201.0] * 9,
    "denormal_results": [0.0, -100.0, -103.0] * 6,
}


@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_special_values(values: list[float], log: bool, target, axis: int) -> None:
    x = np.array([values, [0.5] * 18], np.float32)
    x = x.T.copy() if axis == 0 else x
    problem = softmax(x.shape, axis, log=log)
    (signature,) = SOFTMAX_ROWS_F32_CHF.signatures(problem)
    (found,) = execute(SOFTMAX_ROWS_F32_CHF, problem, signature, {}, target, [x])
    (wanted,) = problem.op.reference([x.astype(np.float64)])
    np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=1e-5, atol=2e-45)


@pytest.mark.parametrize(("problem", "reason"), [
    (softmax((2, 3), dtype=DType.F64), "found f64 input, needed f32"),
    (softmax((2, 0)), "found an input of shape (2, 0), needed at least one axis and one element"),
])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert SOFTMAX_ROWS_F32_CHF.reject(problem, TARGETS[next(iter(TARGETS))]) == reason
