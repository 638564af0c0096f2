"""The frontier of speed and accuracy: selections for rising prices of error, each one's real loss measured.

The price turns two costs into one (a Lagrangian), so each selection is exactly the fastest of its own predicted error. What
a selection really loses is measured on samples, since errors of single layers do not simply add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from softneuro.tuning.budget import Budget
from softneuro.tuning.select import Case, Selection, select
from softneuro.tuning.sensitivity import Sensitivities, choice_dtypes, penalised

__all__ = ["Point", "frontier"]

_PRICES = 12
_REFINEMENTS = 6
_NEAR = 8
Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Point:
    """A selection, the sum of its measured times, and its loss on the samples."""

    selection: Selection
    ns: float
    loss: float


def frontier(cases: Sequence[Case], errors: Sensitivities, base: Selection, threads: int, budget: Budget,
             loss: Callable[[Selection], float], report: Report) -> list[Point]:
    """Points from the slowest, which is ``base`` (the best selection of float32), to the fastest; each is faster than all
    that lose less.

    loss: measures a selection. The prices lie closer where the budget's limit is passed, so that the fastest point that holds
    it is near the best that any price gives.
    """
    search = _Search(cases, errors, threads, loss)
    points = {_key(base): Point(base, base.predicted_ns, loss(base))}
    largest = max((error for of_layer in errors.values() for error in of_layer.values()), default=0.0)
    if largest > 0:
        smallest = min((e for of_layer in errors.values() for e in of_layer.values() if e > 0), default=largest)
        low, high = base.predicted_ns * 1e-4 / largest, base.predicted_ns / smallest
        ratio = (high / low) ** (1 / (_PRICES - 2))
        prices = [0.0, *(low * ratio**i for i in range(_PRICES - 1))]
    else:
        prices = [0.0]
    tried: dict[float, Point] = {}
    for index, price in enumerate(prices):
        report(index, len(prices) + _REFINEMENTS, "")
        tried[price] = search.at(price)
    for index in range(_REFINEMENTS):
        report(len(prices) + index, len(prices) + _REFINEMENTS, "")
        between = _gap(tried, budget)
        if between is None:
            break
        tried[between] = search.at(between)
    found = [*tried.values(), *_near(tried, budget, search)]
    report(1, 1, "")
    for point in found:
        points.setdefault(_key(point.selection), point)
    return _undominated(list(points.values()))


def _near(tried: Mapping[float, Point], budget: Budget, search: _Search) -> list[Point]:
    """Selections that are nearly the best for the prices on both sides of the budget's limit, and faster than the best that
    holds it: prices alone reach only the convex hull of all selections."""
    breaking = [price for price, point in tried.items() if not budget.holds(point.loss)]
    holding = [price for price, point in tried.items() if budget.holds(point.loss)]
    if not breaking or not holding:
        return []
    most = min(tried[price].ns for price in holding)
    return [search.point(s, price) for price in {max(breaking), min(holding)} for s in search.best(price, _NEAR)
            if search.ns(s, price) < most]  # fmt: skip


def _gap(tried: Mapping[float, Point], budget: Budget) -> float | None:
    """A price between the largest whose point breaks the budget and the next, or None where nothing lies between."""
    prices = sorted(tried)
    breaking = [price for price in prices if not budget.holds(tried[price].loss)]
    if not breaking or breaking[-1] == prices[-1]:
        return None
    left = breaking[-1]
    right = prices[prices.index(left) + 1]
    if _key(tried[left].selection) == _key(tried[right].selection) or right / max(left, 1e-9 * right) < 1.01:
        return None
    return math.sqrt(left * right) if left > 0 else right / 10


class _Search:
    """Selections by price, each measured once."""

    def __init__(self, cases: Sequence[Case], errors: Sensitivities, threads: int,
                 loss: Callable[[Selection], float]) -> None:
        self._cases, self._errors, self._threads, self._loss = cases, errors, threads, loss
        self._dtypes = choice_dtypes(cases[0].graph, threads)
        self._known: dict[str, Point] = {}

    def at(self, price: float) -> Point:
        """The best selection for a price."""
        return self.point(self.best(price, 1)[0], price)

    def best(self, price: float, count: int) -> list[Selection]:
        """The best selections for a price."""
        return select(penalised(self._cases, self._errors, price, self._threads), count)

    def point(self, selection: Selection, price: float) -> Point:
        """A selection that was made for a price, measured."""
        key = _key(selection)
        if key not in self._known:
            self._known[key] = Point(selection, self.ns(selection, price), self._loss(selection))
        return self._known[key]

    def ns(self, selection: Selection, price: float) -> float:
        """The times alone of a selection that was made for a price, without what its errors were charged."""
        error = sum(
            self._errors[name].get(dtype, 0.0)
            for name, choice in selection.choices.items() if name in self._errors for dtype in self._dtypes(name, choice)
        )  # fmt: skip
        return selection.predicted_ns - price * error


def _key(selection: Selection) -> str:
    return repr(sorted((name, str(choice)) for name, choice in selection.choices.items()))


def _undominated(points: list[Point]) -> list[Point]:
    """The slowest first; those that another is not slower than and loses no more are left out."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.loss if math.isfinite(p.loss) else math.inf, p.ns)):
        if not kept or point.ns < kept[-1].ns:
            kept.append(point)
    return kept
