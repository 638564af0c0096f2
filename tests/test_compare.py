"""How far two engines' outputs are apart: every kind of value, and what a verdict needs."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from softneuro.compare import differences
from softneuro.errors import InputError

F32 = np.float32


def one(here: Any, there: Any) -> Any:
    (row,) = differences({"y": here}, {"y": there})
    return row


def test_the_worst_element_is_named() -> None:
    there = np.array([[1, 2], [4, -8]], F32)
    row = one(there + np.array([[0, 0.5], [-1, 0.25]], F32), there)
    assert (row.absolute, row.scale, row.relative, row.needed) == (1.0, 8.0, 0.125, 0.125)
    assert (row.worst, row.value_here, row.value_there) == ((1, 0), 3.0, 4.0)
    assert row.within(0.125) and not row.within(0.124) and row.note == ""
    assert row.type_here == row.type_there == "float32 (2, 2)"


@pytest.mark.parametrize("value", [
    np.array([1, np.nan, np.inf, -np.inf], F32), np.zeros((0, 3), F32), np.array(3.5, F32), np.array([True, False]),
    np.array([2**63 - 1, -(2**63)]), np.array([1 + 2j], np.complex64), np.array(["a", "b"], object),
    np.array([1.5], ml_dtypes.bfloat16), [np.ones(2, F32), np.zeros(3, F32)], {"a": 1.5}, None, [],
], ids=["not_finite", "empty", "scalar", "bool", "large_int", "complex", "text", "bfloat16", "sequence", "map", "nothing",
        "empty_sequence"])  # fmt: skip
def test_equal_values(value: Any) -> None:
    rows = differences({"y": value}, {"y": value})
    assert all(row.needed == 0 and row.worst is None and not row.note for row in rows)
    assert len(rows) == (len(value) if isinstance(value, list) else 1)


@pytest.mark.parametrize(("here", "there", "absolute"), [
    (np.array([2**53 + 1]), np.array([2**53]), 1.0),
    (np.array([2**63 - 1]), np.array([-(2**63)]), float(2**64 - 1)),
    (np.array([250], np.uint8), np.array([3], np.uint8), 247.0),
    (np.array([-128], np.int8), np.array([127], np.int8), 255.0),
    (np.array([True]), np.array([False]), 1.0),
    (np.array([1 + 1j]), np.array([1 - 1j]), 2.0),
    (np.array([np.inf], F32), np.array([-np.inf], F32), math.inf),
    (np.array([1.0], F32), np.array([np.inf], F32), math.inf),
    (np.array(5, np.int64), np.array(3, np.int64), 2.0),
], ids=["neighbours_beyond_2_53", "int64_range", "uint8", "int8", "bool", "complex", "infinities", "one_infinity", "scalar"])
def test_differences_are_exact(here: np.ndarray, there: np.ndarray, absolute: float) -> None:
    assert one(here, there).absolute == absolute


@pytest.mark.parametrize(("here", "there", "note"), [
    (np.zeros((1, 3), F32), np.zeros((3, 1), F32), "float32 (1, 3) here, float32 (3, 1) there"),
    (np.zeros(3, F32), np.zeros(3), "float32 (3,) here, float64 (3,) there"),
    (np.array([np.nan, 1], F32), np.array([1, 1], F32), "NaN here only"),
    (np.array([0, 1], F32), np.array([0, np.nan], F32), "NaN there only"),
    (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 texts differ"),
    ([np.ones(1)], [np.ones(1), np.ones(1)], "sequence of 1 here, sequence of 2 there"),
    (None, np.zeros(1, F32), "nothing here, float32 (1,) there"),
    ({"a": 1}, {"b": 1}, "map of 1 here, map of 1 there"),
])  # fmt: skip
def test_no_tolerance_passes(here: Any, there: Any, note: str) -> None:
    row = one(here, there)
    assert row.note == note and row.needed == math.inf and not row.within(1e30)


def test_what_is_not_finite_is_counted_on_both_sides() -> None:
    row = one(np.array([np.nan, np.nan, np.inf], F32), np.array([np.nan, 1, 2], F32))
    assert (row.nan_here, row.nan_there, row.inf_here, row.inf_there) == (2, 1, 1, 0)
    assert row.worst == (1,) and math.isnan(row.value_here) and row.value_there == 1


def test_elements_of_sequences_and_maps_have_names() -> None:
    rows = differences({"y": [{"a": 1.0}, {"a": 2.0}]}, {"y": [{"a": 1.0}, {"a": 2.5}]})
    assert [(row.name, row.absolute) for row in rows] == [("y[0]['a']", 0.0), ("y[1]['a']", 0.5)]


def test_outputs_of_one_side_only() -> None:
    with pytest.raises(InputError, match="output 'z' is made by one side only"):
        differences({"y": np.zeros(1)}, {"y": np.zeros(1), "z": np.zeros(1)})


@pytest.mark.parametrize(("sixth", "shift", "equal", "needed"), [
    (5.5, 0.0, True, 0.0), (5.5, 0.4, True, 0.04), (5.5, 0.51, False, 0.051), (5.9995, 0.001, True, 0.0001),
    (5.9, 0.11, False, 0.011),
], ids=["same", "still_sixth", "sixth_before_fifth", "tie", "no_tie"])  # fmt: skip
def test_the_largest_five(sixth: float, shift: float, equal: bool, needed: float) -> None:
    """The fifth class has the value 6 of at most 10; the sixth one goes up by the shift."""
    there = np.array([[10, 9, 8, 7, 6, sixth, 3, 2, 1, 0]], np.float64)
    here = there.copy()
    here[0, 5] += shift
    row = one(here, there)
    assert row.top5_equal is equal and row.needed == pytest.approx(needed, abs=1e-6)


def test_classes_decide_even_where_the_numbers_pass() -> None:
    """The second sample's values are small beside the first's, its order is not."""
    there = np.array([np.arange(10) * 1000.0, np.arange(10) * 0.01])
    here = there.copy()
    here[1] = here[1, ::-1]
    row = one(here, there)
    assert row.relative < 1e-4 and row.top5_equal is False and not row.within(1e-4) and row.needed > 0.4
    assert row.within(row.needed)


@pytest.mark.parametrize("shape", [(10,), (1, 9), (1, 1, 10), (0, 10)])
def test_outputs_that_are_no_classes(shape: tuple[int, ...]) -> None:
    assert one(np.zeros(shape, F32), np.zeros(shape, F32)).top5_equal is None


def test_whole_numbers_are_no_classes() -> None:
    assert one(np.zeros((1, 16), np.int64), np.zeros((1, 16), np.int64)).top5_equal is None


def test_infinite_logits_have_an_order_too() -> None:
    logits = np.array([[np.inf, 5, 4, 3, *[-np.inf] * 8]])
    assert one(logits, logits).top5_equal is True
