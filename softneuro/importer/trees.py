"""TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble of ai.onnx.ml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.importer.scores import TRANSFORMS, Decision, classified, transform_of, transformed
from softneuro.limits import in_force
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.trees import BRANCHES, TreeEnsemble
from softneuro.types import Array, DType

__all__ = ["CONVERTERS"]

_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5}
_LEAF, _MEMBER, _EQUAL = 255, 6, 4
_AGGREGATES = ("average", "sum", "min", "max")


@dataclass(frozen=True)
class _Nodes:
    """The nodes of all trees, as `TreeEnsemble` reads them."""

    feature: Array
    threshold: Array
    branch: Array
    yes: Array
    no: Array
    missing: Array
    leaf: Array
    roots: Array

    def constants(self, node: Node, weights: Array) -> tuple[str, ...]:
        """The op's inputs after the matrix: a leaf compares anything, and goes on with itself."""
        leaf, own = self.branch == _LEAF, np.arange(len(self.branch))
        ended = replace(self, branch=np.where(leaf, 0, self.branch).astype(np.uint8), yes=np.where(leaf, own, self.yes),
                        no=np.where(leaf, own, self.no))
        fields = (*vars(ended).items(), ("weights", weights))
        return tuple(node.add_constant(name, np.ascontiguousarray(value)) for name, value in fields)

    def features(self, node: Node) -> int:
        """How many columns the nodes look at. Raises ModelError for a negative one."""
        looked_at = self.feature[self.branch != _LEAF]
        if looked_at.size and looked_at.min() < 0:
            raise node.error(f"found feature {looked_at.min()} of a node, needed numbers from 0")
        return int(looked_at.max(initial=-1)) + 1

    def depth(self, node: Node) -> int:
        """The most comparisons from a root to a leaf. Raises ModelError when a tree has a cycle or a child is missing."""
        count = len(self.branch)
        inner = self.branch != _LEAF
        children = np.concatenate([self.roots, self.yes[inner], self.no[inner]])
        if children.size and not 0 <= children.min() <= children.max() < count:
            raise node.error(f"found a child with number {children.max()}, needed numbers below {count}")
        level, depth = np.unique(self.roots), 0
        while (level := level[inner[level]]).size:
            level, depth = np.unique(np.concatenate([self.yes[level], self.no[level]])), depth + 1
            if depth > count:
                raise node.error("a tree has a cycle, needed trees that end in leaves")
        return depth


def _numbers(node: Node, name: str, dtype: Any, size: int | None = None) -> Array:
    """A list attribute or its ``_as_tensor`` form; zeros when it is absent and a size is given."""
    proto = node.get(f"{name}_as_tensor")
    values = node.scope.array(proto).reshape(-1) if proto is not None else np.asarray(node.get(name, ()), dtype)
    if size is not None and values.size == 0:
        return np.zeros(size, dtype)
    if size is not None and values.size != size:
        raise node.error(f"found {values.size} {name}, needed {size}")
    return values


def _table(node: Node, leaves: int, targets: int, dtype: Any) -> Array:
    """Weights of leaves that say nothing yet. Raises ResourceLimitError before memory is taken for too many."""
    in_force().check("tensor_bytes", leaves * targets * np.dtype(dtype).itemsize, f"{node}: its leaves' weights need")
    return np.full((leaves, targets), np.nan, dtype)


def _weights(node: Node, prefix: str, where: dict[tuple[int, int], int], targets: int) -> tuple[Array, Array]:
    """Row of the weights by node, and the weights (rows, targets), NaN where a leaf says nothing."""
    trees, ids, columns = (_numbers(node, f"{prefix}_{n}", np.int64) for n in ("treeids", "nodeids", "ids"))
    values = _numbers(node, f"{prefix}_weights", np.float32, len(trees))
    places = np.array([where[key] for key in zip(trees.tolist(), ids.tolist(), strict=True)], np.int64)
    if columns.size and not 0 <= columns.min() <= columns.max() < targets:
        raise node.error(f"found {prefix}_ids up to {columns.max()}, needed numbers below {targets}")
    leaves, rows = np.unique(places, return_inverse=True)
    table = _table(node, len(leaves) + 1, targets, values.dtype)  # the last row is of leaves without weights
    table[rows, columns] = 0
    np.add.at(table, (rows, columns), values)
    leaf = np.full(len(where), len(leaves), np.int64)
    leaf[leaves] = np.arange(len(leaves))
    return leaf, table


def _listed_nodes(node: Node, prefix: str, targets: int) -> tuple[_Nodes, Array]:
    """The nodes of the older operators, which name each by tree and number."""
    trees, ids = _numbers(node, "nodes_treeids", np.int64), _numbers(node, "nodes_nodeids", np.int64)
    keys = list(zip(trees.tolist(), ids.tolist(), strict=True))
    where = {key: position for position, key in enumerate(keys)}
    branch = np.array([_LEAF if mode == "LEAF" else _MODES[mode] for mode in node.get("nodes_modes", ())], np.uint8)
    inner = branch != _LEAF
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        numbers = _numbers(node, name, np.int64, len(keys)).tolist()
        pairs = zip(trees.tolist(), numbers, inner.tolist(), strict=True)
        children.append(np.array([where[tree, number] if goes_on else 0 for tree, number, goes_on in pairs], np.int64))
    roots = np.setdiff1d(np.arange(len(keys)), np.concatenate([child[inner] for child in children]))
    leaf, weights = _weights(node, prefix, where, targets)
    nodes = _Nodes(
        _numbers(node, "nodes_featureids", np.int64, len(keys)),
        _numbers(node, "nodes_values", np.float32, len(keys)),
        branch,
        children[0],
        children[1],
        _numbers(node, "nodes_missing_value_tracks_true", np.int64, len(keys)).astype(bool),
        leaf,
        roots,
    )
    return nodes, weights


def _scores(node: Node, nodes: _Nodes, weights: Array, base: Array, op: TreeEnsemble, result: str) -> tuple[Layer, ...]:
    """The layers that make the scores, a base value added to each."""
    layers: list[Layer] = []
    x = node.inputs[0]
    if not node.dtype(0).is_float and node.dtype(0) is not DType.OTHER:
        x = node.tensor("real")
        layers.append(node.layer(Pointwise("cast_f32(x0)"), node.inputs[:1], (x,)))
    raw = node.tensor("raw") if base.any() else result
    op = replace(op, depth=nodes.depth(node), features=nodes.features(node))
    layers.append(node.layer(op, (x, *nodes.constants(node, weights)), (raw,)))
    if raw != result:
        base_name = node.add_constant("base", base.astype(np.float32))
        layers.append(node.layer(Pointwise("isnan(x0);where(t0,0.0,x0);add(t1,x1)"), (raw, base_name), (result,)))
    return tuple(layers)


def _regressor(node: Node) -> tuple[Layer, ...]:
    targets = int(node.get("n_targets", 1))
    nodes, weights = _listed_nodes(node, "target", targets)
    aggregate: Any = str(node.get("aggregate_function", "SUM")).lower()
    if aggregate not in _AGGREGATES:
        raise node.error(f"found aggregate_function {aggregate.upper()!r}, needed SUM, AVERAGE, MIN or MAX")
    return _transformed(node, nodes, weights, TreeEnsemble(0, aggregate), transform_of(node))


def _transformed(node: Node, nodes: _Nodes, weights: Array, op: TreeEnsemble, kind: str) -> tuple[Layer, ...]:
    """Scores of one target are given out as they are, but for probit."""
    base = _numbers(node, "base_values", np.float32)
    if kind == "none" or (weights.shape[1] == 1 and kind != "probit"):
        return _scores(node, nodes, weights, base, op, node.outputs[0])
    scores = node.tensor("scores")
    return (*_scores(node, nodes, weights, base, op, scores), *transformed(node, kind, scores, node.outputs[0]))


def _classifier(node: Node) -> tuple[Layer, ...]:
    """Of two classes of which the leaves name one, only that one's score decides."""
    strings = node.get("classlabels_strings", ())
    labels = np.array(strings, object) if len(strings) else np.asarray(node.get("classlabels_int64s", ()), np.int64)
    nodes, weights = _listed_nodes(node, "class", len(labels))
    named = np.flatnonzero(~np.isnan(weights).all(axis=0))
    base, kind = _numbers(node, "base_values", np.float32), transform_of(node)
    decision = Decision(kind)
    if len(labels) == 2 and len(named) == 1:
        positive = bool((_numbers(node, "class_weights", np.float32) >= 0).all())
        decision = Decision(kind, 0.5 if positive else 0.0, "complement" if positive else "negative")
        if named[0] == 0:
            weights, base = weights[:, :1], base[-1:]
    scores = node.tensor("scores")
    layers = _scores(node, nodes, weights, base, TreeEnsemble(0, marked=True), scores)
    return (*layers, *classified(node, decision, scores, weights.shape[1], labels))


def _ensemble(node: Node) -> tuple[Layer, ...]:
    """The operator of version 5: nodes and leaves in lists of their own, and branches on membership in a set."""
    targets, count = int(node.get("n_targets", 1)), len(node.get("nodes_featureids", ()))
    leaf_targets = _numbers(node, "leaf_targetids", np.int64)
    values = node.scope.array(node.get("leaf_weights")).reshape(-1)
    splits, branch = node.scope.array(node.get("nodes_splits")), node.scope.array(node.get("nodes_modes")).astype(np.uint8)
    children = []
    for side in ("true", "false"):
        numbers, is_leaf = _numbers(node, f"nodes_{side}nodeids", np.int64), _numbers(node, f"nodes_{side}leafs", np.int64)
        children.append(np.where(is_leaf != 0, numbers + count, numbers))
    leaves = len(leaf_targets)
    weights = _table(node, leaves, targets, values.dtype)
    weights[np.arange(leaves), leaf_targets] = values
    missing = _numbers(node, "nodes_missing_value_tracks_true", np.int64, count).astype(bool)
    none = np.zeros(leaves, np.int64)
    nodes = _without_sets(node, _Nodes(
        np.concatenate([_numbers(node, "nodes_featureids", np.int64), none]),
        np.concatenate([splits, none.astype(splits.dtype)]),
        np.concatenate([branch, np.full(leaves, _LEAF, np.uint8)]),
        np.concatenate([children[0], none]),
        np.concatenate([children[1], none]),
        np.concatenate([missing, none.astype(bool)]),
        np.concatenate([np.zeros(count, np.int64), np.arange(leaves)]),
        _numbers(node, "tree_roots", np.int64),
    ))  # fmt: skip
    if not {*np.unique(nodes.branch).tolist()} <= {*BRANCHES, _LEAF}:
        raise node.error(f"found mode {nodes.branch[nodes.branch != _LEAF].max()} of a node, needed one from 0 to 6")
    aggregate: Any = _AGGREGATES[int(node.get("aggregate_function", 1))]
    kind = TRANSFORMS[int(node.get("post_transform", 0))]
    op = TreeEnsemble(0, aggregate, dtype=DType.of(values.dtype))
    return _transformed(node, nodes, weights, op, kind)


def _without_sets(node: Node, nodes: _Nodes) -> _Nodes:
    """A membership test as a row of tests for equality, one for each member of the node's set."""
    proto = node.get("membership_values")
    places = np.flatnonzero(nodes.branch == _MEMBER)
    if proto is None or not places.size:
        return nodes
    values = node.scope.array(proto)
    sets = np.split(values, np.flatnonzero(np.isnan(values)))
    members = [part[~np.isnan(part)] for part in sets][: len(places)]
    columns = {name: list(value) for name, value in vars(nodes).items()}
    for place, wanted in zip(places.tolist(), members, strict=True):
        columns["branch"][place] = _EQUAL
        columns["threshold"][place] = wanted[0]
        current = place
        for value in wanted[1:]:
            for name in ("feature", "yes", "no", "missing", "leaf"):
                columns[name].append(columns[name][current])
            columns["branch"].append(_EQUAL)
            columns["threshold"].append(value)
            columns["no"][current] = len(columns["branch"]) - 1
            current = len(columns["branch"]) - 1
    return _Nodes(**{name: np.array(column, getattr(nodes, name).dtype) for name, column in columns.items()})


CONVERTERS: Converters = {
    "TreeEnsemble": _ensemble,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor,
}
