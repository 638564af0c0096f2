"""How the numbers of a tensor are spread, collected array by array.

Bins are as wide as a power of two and begin at multiples of their width, so growing the range merges pairs of bins exactly:
the result depends on neither the order of the arrays nor how they are cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softneuro.types import Array

__all__ = ["BINS", "Histogram", "Spread"]

BINS = 4096
"""The most bins; the widths double when there would be more, so large samples fill at least half as many."""
_LEAST_EXPONENT, _PIECE = -100, 1 << 18


@dataclass(frozen=True)
class Spread:
    """Finite numbers by bins: ``counts[i]`` of them from ``edges[i]`` on, at most ``width`` further, zeros left out.

    low, high: the range of all of them and 0. edges ascend by ``width``. zeros: how many are exactly 0, which every
    quantisation keeps as it is.
    """

    low: float
    high: float
    edges: Array
    width: float
    counts: Array
    zeros: int

    def points(self, each: int) -> tuple[Array, Array]:
        """Numbers that stand for the bins, ``each`` of them for one, and how many each stands for: float64."""
        filled = self.counts > 0
        inside = (np.arange(each) + 0.5) / each * self.width
        points = np.clip(self.edges[filled][:, None] + inside, self.low, self.high)
        return points.reshape(-1), np.repeat(self.counts[filled] / each, each)

    def clamped(self, low: float, high: float) -> Spread:
        """What is left where a layer maps all numbers outside of ``low`` to ``high`` (which have 0 between them) to the ends."""
        if low <= self.low and self.high <= high:
            return self
        below, above = self.edges + self.width <= low, (self.edges > high) | (self.edges >= 0 if high == 0 else False)
        within = ~(below | above)
        kept, cut = self.counts[within].copy(), (int(self.counts[below].sum()), int(self.counts[above].sum()))
        zeros = self.zeros + (cut[0] if low == 0 else 0) + (cut[1] if high == 0 else 0)
        if kept.size:
            kept[0] += cut[0] if low != 0 else 0
            kept[-1] += cut[1] if high != 0 else 0
        return Spread(max(self.low, low), min(self.high, high), self.edges[within], self.width, kept, zeros)


class Histogram:
    """Grows with every array. unusual counts NaN and infinite numbers, which are in no bin."""

    def __init__(self) -> None:
        self.unusual = 0
        self.count = 0
        self._low = self._high = 0.0
        self._zeros = 0
        self._exponent = _LEAST_EXPONENT
        self._first = 0
        self._counts: Array = np.zeros(1, np.int64)

    def add(self, array: Array) -> None:
        """Count the elements of an array of floats."""
        flat = array.reshape(-1)
        for start in range(0, flat.size, _PIECE):
            self._add(flat[start : start + _PIECE])

    def _add(self, values: Array) -> None:
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            finite = values[np.isfinite(values)]
            self.unusual += values.size - finite.size
            if not finite.size:
                return
            values, low, high = finite, float(finite.min()), float(finite.max())
        self._reach(min(self._low, low), max(self._high, high))
        bins = np.floor(values * values.dtype.type(2.0**-self._exponent)).astype(np.int64) - self._first
        zeros = values.size - int(np.count_nonzero(values))
        self._counts += np.bincount(bins, minlength=self._counts.size)
        self._counts[-self._first] -= zeros
        self._zeros += zeros
        self.count += values.size

    def _reach(self, low: float, high: float) -> None:
        """Make bins for numbers from ``low`` (at most 0) to ``high`` (at least 0)."""
        exponent = self._exponent
        while _bin(high, exponent) - _bin(low, exponent) + 1 > BINS:
            exponent += 1
        if exponent > self._exponent:
            merged = (self._first + np.arange(self._counts.size)) >> (exponent - self._exponent)
            counts = np.zeros(int(merged[-1] - merged[0]) + 1, np.int64)
            np.add.at(counts, merged - merged[0], self._counts)
            self._first, self._counts, self._exponent = int(merged[0]), counts, exponent
        before = self._first - _bin(low, exponent)
        after = _bin(high, exponent) - (self._first + self._counts.size - 1)
        if before > 0 or after > 0:
            self._counts = np.pad(self._counts, (max(before, 0), max(after, 0)))
            self._first -= max(before, 0)
        self._low, self._high = low, high

    def spread(self) -> Spread:
        """What was counted so far."""
        width = 2.0**self._exponent
        edges = (self._first + np.arange(self._counts.size)) * width
        return Spread(self._low, self._high, edges, width, self._counts.copy(), self._zeros)


def _bin(value: float, exponent: int) -> int:
    return math.floor(math.ldexp(value, -exponent))
