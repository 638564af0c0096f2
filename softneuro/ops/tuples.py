"""Index tensors whose last axis holds coordinates: what GatherND and ScatterND share."""

from __future__ import annotations

import numpy as np

from softneuro.errors import InputError
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["INDEX_TYPES", "checked_indices", "normal_tuples"]

INDEX_TYPES = (DType.I32, DType.I64)
"""The data types that indices may have."""


def checked_indices(indices: TensorType) -> TensorType:
    """The type. Raises InputError unless its elements can be indices."""
    if indices.dtype not in INDEX_TYPES:
        raise InputError(f"found {indices.dtype} indices, needed i32 or i64")
    return indices


def normal_tuples(indices: Array, sizes: Shape) -> Array:
    """The coordinates without negative ones, which count from the end of their axis.

    Raises InputError when one lies outside of its axis.
    """
    bounds = np.array(sizes, np.int64)
    outside = (indices < -bounds) | (indices >= bounds)
    if outside.any():
        *_, column = np.argwhere(outside)[0]
        raise InputError(
            f"found index {indices[outside][0]}, needed one from {-sizes[column]} to {sizes[column] - 1}"
        )
    result: Array = np.where(indices < 0, indices + bounds, indices)
    return result
