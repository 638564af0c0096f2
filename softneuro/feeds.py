"""Made-up inputs: what models are run on when nobody gives anything better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softneuro.types import Array, DType

__all__ = ["random_array", "random_of_kind"]


def random_array(dtype: DType, shape: Sequence[int], rng: np.random.Generator, *, least: int = 0, most: int = 1) -> Array:
    """Normal floats, empty strings, or whole numbers from ``least`` to ``most``: small, as they may be indices or lengths."""
    if dtype is DType.STR:
        return np.full(shape, "", dtype=object)
    values = rng.standard_normal(shape, np.float32) if dtype.is_float else rng.integers(least, most + 1, shape)
    return np.asarray(values).astype(dtype.numpy)


def random_of_kind(kind: str, shape: Sequence[int], rng: np.random.Generator, *, least: int = 0, most: int = 1) -> Any:
    """A value of `GraphInput.kind`: whole numbers of an element type, one item in a sequence or map, no absent optional."""
    head, _, rest = kind.partition("(")
    inner = rest.removesuffix(")")
    if head == "map":
        key, _, inner = inner.partition(",")
        return {"" if key == "string" else 0: random_of_kind(inner, shape, rng, least=least, most=most)}
    if head in ("optional", "sequence"):
        value = random_of_kind(inner, shape, rng, least=least, most=most)
        return [value] if head == "sequence" else value
    if kind == "string":
        return random_array(DType.STR, shape, rng)
    return np.asarray(rng.integers(least, most + 1, shape)).astype(_element(kind))


def _element(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
