"""What a faster plan may cost in accuracy: how the loss of a plan's outputs is measured, and how much of it is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softneuro.errors import InputError
from softneuro.tuning.trials import Outputs
from softneuro.types import Array

__all__ = ["DEFAULT_MAX_ERROR", "Budget", "Metric", "max_error", "metric_drop", "min_agreement", "relative_error"]

DEFAULT_MAX_ERROR = 0.01
"""Relative L2 error of outputs that plans of mixed data types may have when nothing else is said."""

Metric = Callable[[Sequence[Mapping[str, Array]]], float]
"""A user's measure of the outputs of all samples, in their order: more is better."""


@dataclass(frozen=True)
class Budget:
    """loss: of a plan's outputs beside those of the float32 plan, 0 when they are the same. limit: the largest that is allowed.
    text: what the limit means, for people."""

    loss: Callable[[Outputs, Outputs], float]
    limit: float
    text: str

    def holds(self, loss: float) -> bool:
        """Whether a plan with this loss may be used; one whose loss is no number may not."""
        return loss <= self.limit


def relative_error(found: Outputs, exact: Outputs) -> float:
    """The largest relative L2 distance of any float output, taken over all samples together; infinite where the one has a
    number and the other none. Outputs of whole numbers are not looked at."""
    worst = 0.0
    for name, first in exact[0].items():
        if not (isinstance(first, np.ndarray) and first.dtype.kind == "f"):
            continue
        distance = norm = 0.0
        for ours, theirs in zip(found, exact, strict=True):
            want, got = theirs[name].astype(np.float64), ours[name].astype(np.float64)
            usual = np.isfinite(want)
            if got.shape != want.shape or not np.array_equal(got[~usual], want[~usual], equal_nan=True):
                return math.inf
            distance += float(np.sum((got[usual] - want[usual]) ** 2))
            norm += float(np.sum(want[usual] ** 2))
        if not math.isfinite(distance):
            return math.inf
        worst = max(worst, math.sqrt(distance / norm) if norm else math.inf if distance else 0.0)
    return worst


def max_error(limit: float) -> Budget:
    """At most this relative L2 error of any output. Raises InputError for no number of 0 or more."""
    if not limit >= 0:
        raise InputError(f"max_error: found {limit}, needed 0 or more (0.01: 1 % of the outputs' norm)")
    return Budget(relative_error, limit, f"relative error of outputs at most {limit:g}")


def _disagreement(found: Outputs, exact: Outputs) -> float:
    """The part of all rows of the first float output whose largest element is another one."""
    name = next((n for n, a in exact[0].items() if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.ndim), None)
    if name is None:
        raise InputError("min_agreement: the model has no float output with an axis of classes, needed one: use max_error")
    other = rows = 0
    for ours, theirs in zip(found, exact, strict=True):
        best = np.argmax(theirs[name], axis=-1)
        other += int(np.sum(np.argmax(ours[name], axis=-1) != best))
        rows += best.size
    return other / rows


def min_agreement(part: float) -> Budget:
    """At least this part of all samples keep their first class: the largest element along the last axis of the first float
    output. Raises InputError for a part that is not 0 to 1."""
    if not 0 <= part <= 1:
        raise InputError(f"min_agreement: found {part}, needed 0 to 1 (0.99: of 100 samples 99 keep their class)")
    return Budget(_disagreement, 1 - part, f"first class kept for at least {part:.4g} of the samples")


def metric_drop(metric: Metric, most: float) -> Budget:
    """The user's metric of all outputs is at most this much less than with float32. Raises InputError for a drop below 0,
    and, when it is used, for a metric that gives no number."""
    if not most >= 0:
        raise InputError(f"max_drop: found {most}, needed 0 or more, in the metric's units")

    def value(outputs: Outputs) -> float:
        result = float(metric(outputs))
        if not math.isfinite(result):
            raise InputError(f"metric: found {result}, needed a number, more for better outputs")
        return result

    return Budget(lambda found, exact: value(exact) - value(found), most, f"metric drops by at most {most:g}")
