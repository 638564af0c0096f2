"""Histograms that grow, and the ranges found on known distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softneuro.calibration.histogram import BINS, Histogram, Spread
from softneuro.calibration.ranges import METHODS, chosen_range, relative_error
from softneuro.quantisation import Quantisation
from softneuro.types import Array

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal(200_000).astype(np.float32)
UNIFORM = RNG.uniform(-1, 3, 200_000).astype(np.float32)
RECTIFIED = np.maximum(NORMAL, 0)
LAPLACE = RNG.laplace(0, 1, 200_000).astype(np.float32)
OUTLIER = np.append(NORMAL, np.float32(1000))
SPARSE = np.where(np.arange(200_000) % 50_000, np.float32(0), np.float32(7))
ALL = {"normal": NORMAL, "uniform": UNIFORM, "rectified": RECTIFIED, "laplace": LAPLACE, "outlier": OUTLIER, "sparse": SPARSE}


def spread_of(*arrays: Array) -> Spread:
    histogram = Histogram()
    for array in arrays:
        histogram.add(array)
    return histogram.spread()


def true_error(values: Array, low: float, high: float) -> float:
    """The relative error of keeping the values themselves."""
    q = Quantisation.of_range(low, high)
    change = q.dequantised(q.quantised(values)).astype(np.float64) - values
    return float(np.linalg.norm(change) / np.linalg.norm(values.astype(np.float64)))


def same(a: Spread, b: Spread) -> bool:
    scalars = (a.low, a.high, a.width, a.zeros) == (b.low, b.high, b.width, b.zeros)
    return scalars and np.array_equal(a.edges, b.edges) and np.array_equal(a.counts, b.counts)


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_every_number_is_counted_where_it_lies(values: Array) -> None:
    spread = spread_of(values)
    assert spread.counts.sum() + spread.zeros == values.size
    assert (spread.low, spread.high) == (min(values.min(), 0), max(values.max(), 0))
    assert BINS // 2 <= spread.counts.size <= BINS or not values.any()
    nonzero = values[values != 0].astype(np.float64)
    edges = np.append(spread.edges, spread.edges[-1] + spread.width)
    np.testing.assert_array_equal(np.histogram(nonzero, edges)[0], spread.counts)


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_neither_order_nor_pieces_matter(values: Array) -> None:
    whole = spread_of(values)
    assert same(whole, spread_of(*np.array_split(values[::-1], 7)))
    assert same(whole, spread_of(*np.array_split(np.sort(values), 3)))
    assert same(whole, spread_of(*np.array_split(np.random.default_rng(1).permutation(values), 5)))


@pytest.mark.parametrize(("values", "low", "high"), [
    ([0.0, 0.0, -0.0], 0, 0), ([5.0] * 9, 0, 5), ([-3.0], -3, 0), ([3e38, -3e38], -3e38, 3e38), ([1e-38, 1e-40], 0, 1e-38),
    ([], 0, 0), ([1e-30, 1e30], 0, 1e30),
], ids=["zeros", "constant", "one_negative", "huge", "denormal", "empty", "far_apart"])  # fmt: skip
@pytest.mark.parametrize("method", [None, *METHODS])
def test_odd_tensors_have_ranges(values: list[float], low: float, high: float, method: str | None) -> None:
    array = np.array(values, np.float32)
    spread = spread_of(array)
    assert (spread.low, spread.high) == (pytest.approx(low), pytest.approx(high))
    found = chosen_range(spread, method)
    assert low * 1.0001 <= found.low <= 0 <= found.high <= high * 1.0001 + 1e-37
    assert found.quantisation.zero in range(256)
    if values == [5.0] * 9 and method in (None, "min-max", "mse"):
        assert (found.low, found.high) == (0, 5) and found.error < 1e-6


def test_unusual_numbers_are_in_no_bin() -> None:
    histogram = Histogram()
    histogram.add(np.array([1, np.nan, np.inf, -np.inf, 2], np.float32))
    histogram.add(np.array([np.nan], np.float32))
    assert (histogram.unusual, histogram.count) == (4, 2)
    assert histogram.spread().high == 2


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
@pytest.mark.parametrize("method", METHODS)
def test_errors_on_the_histogram_are_those_of_the_numbers(values: Array, method: str) -> None:
    spread = spread_of(values)
    found = chosen_range(spread, method)
    assert found.method == method
    assert found.error == pytest.approx(true_error(values, found.low, found.high), rel=0.1, abs=1e-5)
    assert found.error == relative_error(spread, found.low, found.high)


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_the_best_method_wins(values: Array) -> None:
    spread = spread_of(values)
    errors = {method: chosen_range(spread, method).error for method in METHODS}
    best = chosen_range(spread)
    assert best.error == min(errors.values())
    assert best.error == errors[best.method]


def test_min_max_spans_everything() -> None:
    found = chosen_range(spread_of(UNIFORM), "min-max")
    assert (found.low, found.high) == (float(UNIFORM.min()), float(UNIFORM.max()))


def test_the_percentile_leaves_a_ten_thousandth_at_each_end() -> None:
    found = chosen_range(spread_of(LAPLACE), "percentile")
    assert found.high == pytest.approx(np.quantile(LAPLACE, 0.9999), rel=0.03)
    assert found.low == pytest.approx(np.quantile(LAPLACE, 0.0001), rel=0.03)
    assert chosen_range(spread_of(OUTLIER), "percentile").high < 6
    assert chosen_range(spread_of(SPARSE), "percentile").high == 7  # zeros are no reason to cut


def test_least_squares_is_the_best_of_a_fine_search() -> None:
    values = LAPLACE
    found = chosen_range(spread_of(values), "mse")
    searched = min(true_error(values, found.low * a, found.high * b)
                   for a in np.linspace(0.8, 1.25, 12) for b in np.linspace(0.8, 1.25, 12))  # fmt: skip
    assert true_error(values, found.low, found.high) <= searched * 1.01
    assert found.error < chosen_range(spread_of(values), "min-max").error


def test_entropy_clips_long_tails_and_keeps_even_ones() -> None:
    tails, far, even = (chosen_range(spread_of(values), "entropy") for values in (NORMAL, OUTLIER, UNIFORM))
    assert 3 < tails.high < float(NORMAL.max())
    assert 4 < far.high < 500
    assert (even.low, even.high) == (float(UNIFORM.min()), float(UNIFORM.max()))


def test_rectified_numbers_start_at_zero() -> None:
    for method in METHODS:
        found = chosen_range(spread_of(RECTIFIED), method)
        assert found.low == 0 and found.quantisation.zero == 0


@pytest.mark.parametrize(("low", "high"), [(0, math.inf), (0, 1), (-0.5, 0.5), (-math.inf, 0)])
def test_clamped_as_if_the_numbers_were(low: float, high: float) -> None:
    clamped = spread_of(NORMAL).clamped(low, high)
    expected = spread_of(np.clip(NORMAL, low, high).astype(np.float32))
    assert (clamped.low, clamped.high, clamped.zeros) == (expected.low, expected.high, expected.zeros)
    assert clamped.counts.sum() == expected.counts.sum()
    a, b = chosen_range(clamped), chosen_range(expected)
    assert (a.low, a.high) == (pytest.approx(b.low, rel=0.05), pytest.approx(b.high, rel=0.05))
