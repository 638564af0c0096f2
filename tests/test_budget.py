"""Budgets: what counts as loss, and what is no budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softneuro.errors import InputError
from softneuro.tuning.accuracy import Accuracy
from softneuro.tuning.budget import max_error, metric_drop, min_agreement, relative_error
from softneuro.types import Array


def outputs(*arrays: object) -> list[dict[str, Array]]:
    return [{"y": np.asarray(a, np.float32)} for a in arrays]


def test_the_relative_error_is_taken_over_all_samples_together() -> None:
    exact = outputs([3.0, 0.0], [0.0, 4.0])
    assert relative_error(exact, exact) == 0.0
    assert relative_error(outputs([3.0, 0.5], [0.0, 4.0]), exact) == pytest.approx(0.1)
    assert relative_error(outputs([0.0, 0.0], [0.0, 0.0]), exact) == pytest.approx(1.0)


def test_the_worst_output_counts_and_whole_numbers_do_not() -> None:
    exact = [{"good": np.ones(4, np.float32), "bad": np.ones(4, np.float32), "class": np.array([1])}]
    found = [{"good": np.ones(4, np.float32), "bad": np.full(4, 1.5, np.float32), "class": np.array([7])}]
    assert relative_error(found, exact) == pytest.approx(0.5)


@pytest.mark.parametrize(("found", "exact", "error"), [
    ([np.nan, 1.0], [np.nan, 1.0], 0.0),
    ([np.inf, 1.0], [np.inf, 1.0], 0.0),
    ([np.nan, 1.0], [2.0, 1.0], math.inf),
    ([2.0, 1.0], [np.nan, 1.0], math.inf),
    ([-np.inf, 1.0], [np.inf, 1.0], math.inf),
    ([0.0, 0.0], [0.0, 0.0], 0.0),
    ([0.0, 1.0], [0.0, 0.0], math.inf),
])  # fmt: skip
def test_numbers_that_are_none(found: list[float], exact: list[float], error: float) -> None:
    assert relative_error(outputs(found), outputs(exact)) == error
    assert max_error(0.5).holds(error) == (error == 0.0)


def test_agreement_counts_rows() -> None:
    budget = min_agreement(0.75)
    exact = outputs([[1, 2], [2, 1]], [[0, 1], [1, 0]])
    assert budget.loss(outputs([[1, 3], [2, 1]], [[0, 1], [0, 1]]), exact) == 0.25 and budget.holds(0.25)
    assert not budget.holds(0.5)
    with pytest.raises(InputError, match="no float output"):
        budget.loss([{"y": np.array([1])}], [{"y": np.array([1])}])


def test_a_metric_of_ones_own() -> None:
    budget = metric_drop(lambda of_all: float(np.mean([sample["y"].max() for sample in of_all])), 0.5)
    assert budget.loss(outputs([1.0], [2.0]), outputs([2.0], [3.0])) == 1.0 and not budget.holds(1.0)
    with pytest.raises(InputError, match="metric: found nan"):
        metric_drop(lambda of_all: math.nan, 0.5).loss(outputs([1.0]), outputs([1.0]))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"error": -1.0}, "max_error: found -1.0"),
    ({"error": math.nan}, "max_error: found nan"),
    ({"agreement": 1.5}, "min_agreement: found 1.5"),
    ({"error": 0.1, "agreement": 0.9}, "max_error and min_agreement: found 2 budgets"),
    ({"drop": 0.1}, "metric and max_drop: found one"),
    ({"metric": len}, "metric and max_drop: found one"),
    ({"metric": len, "drop": -0.1}, "max_drop: found -0.1"),
])  # fmt: skip
def test_what_is_no_budget(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Accuracy.of(**arguments)


def test_one_percent_where_nothing_is_said() -> None:
    assert Accuracy.of().budget.limit == 0.01
