"""Ensembles of decision trees: every row of a matrix goes down all trees at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["BRANCHES", "TreeEnsemble"]

BRANCHES: Mapping[int, Callable[[Array, Array], Array]] = {
    0: np.less_equal, 1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal,
}  # fmt: skip
"""Comparisons of a feature with a threshold by the number that nodes have."""
_BLOCK = 1 << 20  # numbers of leaves that are looked at in one go


@dataclass(frozen=True)
class TreeEnsemble(Op):
    """The scores (n, targets) that trees give the rows of x (n, features), of type ``dtype``.

    Inputs: x; of every node: feature, threshold, branch (a key of `BRANCHES`), the nodes to go on with when the comparison
    holds and when not (a leaf goes on with itself), whether NaN counts as holding, and the row of the weights (for leaves);
    the roots; weights (leaves, targets), NaN where a leaf says nothing of a target.
    depth: the most comparisons from a root to a leaf. features: how many columns nodes look at.
    Sums are made in float64, tree by tree; ``average`` divides them by the number of trees.
    marked: targets that no tree said anything of stay NaN; otherwise they are 0.
    """

    name: ClassVar[str] = "tree_ensemble"
    depth: int
    aggregate: Literal["sum", "average", "min", "max"] = "sum"
    marked: bool = False
    dtype: DType = DType.F32
    features: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, weights = tensor(types, 0, "matrix"), tensor(types, 9, "weights")
        if x.rank != 2:
            raise InputError(f"found {x}, needed a matrix")
        if x.shape[1] < self.features:
            raise InputError(f"found {x.shape[1]} features, needed {self.features}")
        return (TensorType(self.dtype, (x.shape[0], weights.shape[1])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, *nodes, roots, weights = (np.asarray(value) for value in inputs)
        rows = max(1, _BLOCK // max(1, roots.size * weights.shape[1]))
        parts = [self._scores(x[i : i + rows], nodes, roots, weights) for i in range(0, len(x), rows)]
        return (np.concatenate([np.empty((0, weights.shape[1])), *parts]).astype(self.dtype.numpy),)

    def made_up(self, types: Types, rng: np.random.Generator) -> Values:
        """Trees of equal sizes, filled level by level."""
        nodes, roots = tensor(types, 1, "features").size, tensor(types, 8, "roots").size
        x, threshold, weights = (tensor(types, i, what) for i, what in ((0, "matrix"), (2, "thresholds"), (9, "weights")))
        size = max(1, nodes // max(1, roots))
        start = np.arange(nodes) // size * size
        place = np.arange(nodes) - start
        inner = (2 * place + 2 < np.minimum(size, nodes - start)) & (place < (1 << min(self.depth, 40)) - 1)
        yes, no = (np.where(inner, start + 2 * place + side, np.arange(nodes)) for side in (1, 2))
        return (
            rng.standard_normal(x.shape).astype(x.dtype.numpy),
            rng.integers(0, max(1, min(self.features, x.shape[1])), nodes),
            rng.standard_normal(nodes).astype(threshold.dtype.numpy),
            np.zeros(nodes, np.uint8), yes, no, np.zeros(nodes, bool),
            np.arange(nodes) % max(1, weights.shape[0]),
            np.arange(roots) * size % max(1, nodes),
            rng.standard_normal(weights.shape).astype(weights.dtype.numpy),
        )  # fmt: skip

    def _scores(self, x: Array, nodes: list[Array], roots: Array, weights: Array) -> Array:
        leaves = weights[nodes[-1][_leaves(x, nodes, roots, self.depth)]]
        said = ~np.isnan(leaves)
        identity = {"min": np.inf, "max": -np.inf}.get(self.aggregate, 0.0)
        values = np.where(said, leaves, identity).astype(np.float64)
        combine = {"min": np.minimum, "max": np.maximum}.get(self.aggregate, np.add)
        reduced = np.full((len(x), weights.shape[1]), identity)
        for tree in range(roots.size):
            reduced = combine(reduced, values[:, tree])
        if self.aggregate == "average":
            reduced = reduced / max(1, roots.size)
        return np.where(said.any(axis=1), reduced, np.nan if self.marked else 0.0)


def _leaves(x: Array, nodes: list[Array], roots: Array, depth: int) -> Array:
    """(rows, trees): where every row ends."""
    feature, threshold, branch, yes, no, missing, _ = nodes
    kinds = [int(kind) for kind in np.unique(branch)]
    place = np.broadcast_to(roots, (len(x), roots.size))
    rows = np.arange(len(x))[:, None]
    for _ in range(depth):
        value, limit = x[rows, feature[place]], threshold[place]
        holds = np.isnan(value) & missing[place]
        for number in kinds:
            compared = BRANCHES[number](value, limit)
            holds |= compared if len(kinds) == 1 else compared & (branch[place] == number)
        place = np.where(holds, yes[place], no[place])
    return place
