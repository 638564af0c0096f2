"""Weights as signed bytes with a scale for each output channel."""

from __future__ import annotations

import numpy as np

from softneuro.types import Array

__all__ = ["signed_bytes"]

_MOST = 127
_NARROWEST = 0.6  # of the range that holds every weight: it pays to cut off a few for a finer step
_TRIALS = 17


def signed_bytes(weights: Array) -> tuple[Array, Array]:
    """int8 weights in -127..127, and the float32 scale of each index along axis 0 with the least squared error.

    A channel of zeros has the scale 1. The widest scale, which cuts nothing off, wins where others are not better.
    """
    flat = weights.reshape(weights.shape[0], -1).astype(np.float32)
    reached: Array = np.asarray(np.max(np.abs(flat), axis=1, initial=0.0), np.float32) / np.float32(_MOST)
    widest = np.where(reached >= np.finfo(np.float32).tiny, reached, np.float32(1.0))
    best, least = widest.copy(), np.full(len(flat), np.inf)
    for factor in np.linspace(1.0, _NARROWEST, _TRIALS, dtype=np.float32):
        scale = widest * factor
        error: Array = np.asarray(np.sum((_rounded(flat, scale) * scale[:, None] - flat) ** 2, axis=1, dtype=np.float64))
        better = error < least
        best[better], least[better] = scale[better], error[better]
    return _rounded(flat, best).astype(np.int8).reshape(weights.shape), best


def _rounded(flat: Array, scale: Array) -> Array:
    rounded: Array = np.clip(np.rint(flat / scale[:, None]), -_MOST, _MOST)
    return rounded
