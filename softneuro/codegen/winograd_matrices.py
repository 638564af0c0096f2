"""The exact matrices of Winograd's minimal filtering F(m, 3), by the Cook-Toom construction.

With tile d (n = m + 2 values) and filter g (3 values), the m outputs are ``A^T ((G g) * (B^T d))``. After Toom (1963)
and Cook (1966) as put to use by Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016). Each of
the n - 1 finite interpolation points p gives one product, the point at infinity the last one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

__all__ = ["POINTS", "TAPS", "Matrix", "Minimal", "minimal"]

Matrix = tuple[tuple[Fraction, ...], ...]
TAPS = 3

POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
"""Finite interpolation points by m. The ones for m = 4 have half the rounding error of 0, 1, -1, 2, -2 in float32."""


@dataclass(frozen=True)
class Minimal:
    """F(m, 3): ``output`` is A^T (m x n), ``weights`` G (n x 3), ``input`` B^T (n x n)."""

    m: int
    output: Matrix
    weights: Matrix
    input: Matrix

    @property
    def n(self) -> int:
        """Values of a tile in one dimension, which is also the number of products."""
        return self.m + TAPS - 1


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients, lowest power first, of the product of (x - root)."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [s - root * c for s, c in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients


@functools.cache
def minimal(m: int) -> Minimal:
    """The matrices for m outputs (2 or 4); the highest coefficient of each row of B^T is 1."""
    points = POINTS[m]
    n = m + TAPS - 1
    infinity = Fraction(1)
    output = tuple((*(p**i for p in points), infinity if i == m - 1 else Fraction(0)) for i in range(m))
    weights, inputs = [], []
    for j, point in enumerate(points):
        others = points[:j] + points[j + 1 :]
        scale = prod((point - other for other in others), start=Fraction(1))
        weights.append(tuple(point**i / scale for i in range(TAPS)))
        inputs.append((*_polynomial(others), Fraction(0)))
    weights.append((Fraction(0),) * (TAPS - 1) + (infinity,))
    inputs.append(tuple(_polynomial(points)))
    assert len(inputs) == n and all(len(row) == n for row in inputs)
    return Minimal(m, output, tuple(weights), tuple(inputs))
