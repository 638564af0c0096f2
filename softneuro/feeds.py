"""Made-up inputs: what models are run on when nobody gives anything better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softneuro.types import Array, DType

__all__ = ["random_array"]


def random_array(dtype: DType, shape: Sequence[int], rng: np.random.Generator, *, least: int = 0, most: int = 1) -> Array:
    """Normal floats, empty strings, or whole numbers from ``least`` to ``most``: small, as they may be indices or lengths."""
    if dtype is DType.STR:
        return np.full(shape, "", dtype=object)
    values = rng.standard_normal(shape, np.float32) if dtype.is_float else rng.integers(least, most + 1, shape)
    return np.asarray(values).astype(dtype.numpy)
