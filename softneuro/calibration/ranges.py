"""Which range of a tensor's numbers the 256 bytes should span: four methods, judged by the error that they leave.

A narrow range has fine steps and clips what lies outside, a wide one the other way round. Methods: the whole range; all but
a ten-thousandth at each end; the range of least squared error (searched); the range whose bytes keep the most information
about the distribution, in the sense of Kullback and Leibler (S. Migacz, "8-bit Inference with TensorRT", 2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from softneuro.calibration.histogram import Spread
from softneuro.quantisation import Quantisation
from softneuro.types import Array

__all__ = ["METHODS", "Range", "chosen_range", "relative_error"]

_TAIL = 1e-4
_COARSE, _FINE, _STEPS = 0.5**0.25, 0.5 ** (1 / 16), 32
_POINTS = 2
_LEAST_PROBABILITY = 1e-9
_BYTES = 256
_FEW = 16 * _BYTES

_Ends = tuple[float, float]


@dataclass(frozen=True)
class Range:
    """Numbers that bytes should span (0 among them), the method that found it, and the relative error (L2) that is left."""

    low: float
    high: float
    method: str
    error: float = 0.0

    @property
    def quantisation(self) -> Quantisation:
        """The scale and zero point of the range."""
        return Quantisation.of_range(self.low, self.high)


def relative_error(spread: Spread, low: float, high: float) -> float:
    """The norm (L2) of what keeping the numbers in 8 bits changes, over theirs; within a bin they count as even."""
    points, counts = spread.points(_POINTS)
    power = float(counts @ np.square(points))
    return math.sqrt(_squared_error(points, counts, low, high) / power) if power else 0.0


def _squared_error(points: Array, counts: Array, low: float, high: float) -> float:
    quantisation = Quantisation.of_range(low, high)
    steps = np.clip(np.rint(points / quantisation.scale) + quantisation.zero, 0, 255) - quantisation.zero
    return float(counts @ np.square(steps * quantisation.scale - points))


def _whole(spread: Spread) -> _Ends:
    return spread.low, spread.high


def _percentile(spread: Spread) -> _Ends:
    """All but at most `_TAIL` of the numbers other than 0 at each end, to the width of a bin."""
    allowed = _TAIL * float(spread.counts.sum())
    below, above = np.cumsum(spread.counts), np.cumsum(spread.counts[::-1])
    low, high = int(np.searchsorted(below, allowed, "right")), int(np.searchsorted(above, allowed, "right"))
    least, most = float(spread.edges[low]), float(spread.edges[spread.counts.size - 1 - high] + spread.width)
    return max(spread.low, min(least, 0.0)), min(spread.high, max(most, 0.0))


def _least_squares(spread: Spread) -> _Ends:
    """The least error among both ends drawn in together, then each on its own around the best."""
    points, counts = spread.points(_POINTS)
    known: dict[_Ends, float] = {}

    def error(ends: _Ends) -> float:
        if ends not in known:
            known[ends] = _squared_error(points, counts, *ends)
        return known[ends]

    best = min(((spread.low * _COARSE**k, spread.high * _COARSE**k) for k in range(_STEPS)), key=error)
    while True:
        low, high = best
        factors = [_FINE**k for k in range(-8, 9)]
        best = min((best, *((max(spread.low, low * f), high) for f in factors)), key=error)
        best = min((best, *((best[0], min(spread.high, high * f)) for f in factors)), key=error)
        if not error(best) < 0.999 * error((low, high)):
            return best


def _entropy(spread: Spread) -> _Ends:
    """The least information lost among both ends drawn in together; the whole range of too few numbers to tell."""
    if spread.counts.sum() < _FEW:
        return _whole(spread)
    candidates = [(spread.low * _COARSE ** (k / 2), spread.high * _COARSE ** (k / 2)) for k in range(_STEPS)]
    return min(candidates, key=lambda ends: _information_lost(spread, *ends))


def _information_lost(spread: Spread, low: float, high: float) -> float:
    """Kullback and Leibler's divergence from the clipped distribution (what lies outside is at the ends) to the one that
    is left of the numbers inside when each byte's are spread evenly over its filled bins."""
    middles = np.clip(spread.edges + spread.width / 2, spread.low, spread.high)
    quantisation = Quantisation.of_range(low, high)
    filled = spread.counts > 0
    middles, counts = middles[filled], spread.counts[filled].astype(np.float64)
    inside = (middles >= quantisation.low) & (middles <= quantisation.high)
    if not inside.any():
        return math.inf
    clipped = counts[inside].copy()
    clipped[0] += counts[middles < quantisation.low].sum()
    clipped[-1] += counts[middles > quantisation.high].sum()
    byte = quantisation.quantised(middles[inside])
    in_byte = np.bincount(byte, counts[inside], _BYTES) / np.maximum(np.bincount(byte, minlength=_BYTES), 1)
    real, kept = clipped / clipped.sum(), np.maximum(in_byte[byte] / counts[inside].sum(), _LEAST_PROBABILITY)
    return float(real @ np.log(real / kept))


METHODS: Mapping[str, Callable[[Spread], _Ends]] = {
    "min-max": _whole, "percentile": _percentile, "mse": _least_squares, "entropy": _entropy,
}  # fmt: skip
"""Every way to find a range, in the order in which equally good ones are preferred."""


def chosen_range(spread: Spread, method: str | None = None) -> Range:
    """The range found by a method of `METHODS`, or by the one that leaves the least squared error.

    Numbers that are all 0 give the range 0 to 0.
    """
    found: list[Range] = []
    for name in METHODS if method is None else (method,):
        low, high = METHODS[name](spread) if spread.counts.any() else (0.0, 0.0)
        found.append(Range(low, high, name, relative_error(spread, low, high)))
    return min(found, key=lambda r: r.error)
