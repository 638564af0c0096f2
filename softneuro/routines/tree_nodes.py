"""Trees in the form that `kernels.tree_ensemble` walks: every comparison says whether a key is not above another one.

    x < t    key(x) <= key(t) - 1            x >= t, x > t    the same with the two children exchanged
    x = t    two nodes: key(x) <= key(t), then key(x) <= key(t) - 1 with the children exchanged

The key of NaN is the largest or the smallest of all, whichever leads to the child that NaN goes on with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softneuro.errors import InputError
from softneuro.memory import aligned_empty
from softneuro.types import Array

__all__ = ["NODE_BYTES", "Tests", "order_keys", "packed_nodes", "tests_of"]

NODE_BYTES = {4: 16, 8: 24}
"""Bytes of a node by those of its key."""

_LESS_EQUAL, _LESS, _GREATER_EQUAL, _GREATER, _EQUAL, _NOT_EQUAL = range(6)


@dataclass(frozen=True)
class Tests:
    """Nodes as arrays of one length. feature: the column of x; key: of the threshold; low: whether NaN counts as the
    smallest key; yes and no: the nodes to go on with when the key of x is not above ``key``, and when it is."""

    feature: Array
    key: Array
    low: Array
    yes: Array
    no: Array

    def heights(self, roots: Array, most: int) -> Array:
        """The most comparisons from every root to a leaf. Raises InputError when there are more than ``most``."""
        own = np.arange(len(self.yes))
        inner = (self.yes != own) | (self.no != own)
        height = np.zeros(len(self.yes), np.int64)
        for _ in range(most + 1):
            longer = np.where(inner, 1 + np.maximum(height[self.yes], height[self.no]), 0)
            if np.array_equal(longer, height):
                break
            height = longer
        if height[roots].max(initial=0) > most:
            raise InputError(f"found trees of more than {most} comparisons on the way to a leaf, needed no more")
        return height[roots]


def order_keys(values: Array) -> Array:
    """Integers (int32 for float32, else int64) with the order of floats: both zeros are 0, NaN is above infinity."""
    kind = np.dtype(f"i{values.dtype.itemsize}")
    most = np.iinfo(kind).max
    bits = (values + values.dtype.type(0)).view(kind)  # -0 + 0 is 0
    keys: Array = np.where(np.isnan(values), most, bits ^ ((bits >> (8 * kind.itemsize - 1)) & most))
    return keys


def tests_of(feature: Array, threshold: Array, branch: Array, yes: Array, no: Array, missing: Array) -> Tests:
    """The nodes of a `TreeEnsemble`, thresholds of x's data type, as tests; those of equalities' second tests follow."""
    keys = order_keys(threshold)
    never = np.isnan(threshold)
    leaf = (yes == no) & (yes == np.arange(len(yes)))
    equal = ((branch == _EQUAL) | (branch == _NOT_EQUAL)) & ~leaf
    yes, no = np.where(branch == _NOT_EQUAL, no, yes), np.where(branch == _NOT_EQUAL, yes, no)
    missing = np.where(branch == _NOT_EQUAL, False, missing)  # NaN is not equal to anything: it goes on with ``no``
    exchanged = ((branch == _GREATER_EQUAL) | (branch == _GREATER)) & ~never
    key = np.where((branch == _LESS) | (branch == _GREATER_EQUAL), keys - 1, keys)
    key = np.where(never, np.iinfo(keys.dtype).min, key).astype(keys.dtype)
    first_yes, first_no = np.where(exchanged, no, yes), np.where(exchanged, yes, no)
    low = missing ^ exchanged
    places = np.flatnonzero(equal & ~never)
    first_yes[places] = len(key) + np.arange(len(places))
    low[places] = True  # NaN is left to the second test
    return Tests(
        np.concatenate([feature, feature[places]]),
        np.concatenate([key, keys[places] - 1]),
        np.concatenate([low, ~missing[places]]),
        np.concatenate([first_yes, no[places]]),
        np.concatenate([first_no, yes[places]]),
    )


def packed_nodes(tests: Tests, leaf: Array, tile_bytes: int) -> tuple[Array, Array]:
    """The nodes' bytes, and the comparisons (int64 (count, 2): feature, low) that tiles hold, ``tile_bytes`` for each.

    leaf: the number of the leaf that a node is, where it goes on with itself.
    """
    own = np.arange(len(tests.yes))
    inner = (tests.yes != own) | (tests.no != own)
    pairs = np.where(inner, 2 * tests.feature.astype(np.int64) + tests.low, 0)
    used, place = np.unique(pairs[inner], return_inverse=True)
    position = np.zeros(len(own), np.int64)
    position[inner] = place
    size = tests.key.dtype.itemsize
    nbytes = NODE_BYTES[size]
    nodes = aligned_empty((len(own), nbytes // 4), np.int32)
    nodes[...] = 0
    keys = np.where(inner, tests.key, leaf).astype(tests.key.dtype)
    nodes[:, : size // 4] = keys[:, None].view(np.int32)
    for column, values in enumerate((position * tile_bytes, tests.no * nbytes, tests.yes * nbytes), size // 4):
        nodes[:, column] = values
    return nodes, np.stack([used // 2, used % 2], axis=1).astype(np.int64)
