"""Ensembles of trees, samples in lock step, float32 and float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.trees import TreeEnsemble
from softneuro.problem import Problem
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, Word, packed, scratch, source, target_of
from softneuro.routines.sizes import odd_lines, round_up
from softneuro.routines.tree_nodes import NODE_BYTES, packed_nodes, tests_of
from softneuro.types import Array, DType, Format

__all__ = ["TREE_ENSEMBLE_LOCKSTEP_ANY"]

_PACKED = tuple(range(1, 10))
_MEETINGS = {"sum": 0, "average": 0, "min": 1, "max": 2}
_FLOATS = (DType.F32, DType.F64)


def _reject(problem: Problem, target: Target) -> str | None:
    x, threshold = problem.input(0), problem.input(2)
    if not all(problem.constant[i] for i in _PACKED):
        return "found nodes that are computed in the run, needed constants"
    if x.dtype not in _FLOATS or problem.outputs[0].dtype not in _FLOATS:
        return f"found {x.dtype} samples and {problem.outputs[0].dtype} scores, needed f32 or f64"
    if not threshold.dtype.is_float or threshold.dtype.itemsize > x.dtype.itemsize:
        return f"found {threshold.dtype} thresholds for {x.dtype} samples, needed floats that are not wider"
    nodes = 2 * threshold.size  # tests for equality become two nodes
    if max(nodes * NODE_BYTES[x.dtype.itemsize], 2 * x.shape[1] * 16 * x.dtype.itemsize) >= 1 << 31:
        return f"found {threshold.size} nodes and {x.shape[1]} features, needed offsets below 2 GB"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    formats = (Format.row_major(problem.input(0)), *(None for _ in _PACKED))
    return (Signature(formats, (Format.row_major(problem.outputs[0]),)),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """tiles: of a block that goes down one tree before the next one, so that its nodes stay in the cache."""
    return tuple({"lanes": lanes, "tiles": tiles} for lanes in (8, 16) for tiles in (16, 64))


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """Comparisons; their number, and whether leaves are dense; nodes; roots; first entries, entries' targets, weights."""
    op, kind, lanes = cast(TreeEnsemble, problem.op), problem.input(0).dtype.numpy, schedule["lanes"]
    feature, threshold, branch, yes, no, missing, leaf, roots, weights = (np.asarray(v) for v in values[1:])
    count = len(feature)
    weights = weights if len(weights) else np.full((1, weights.shape[1]), np.nan)
    yes, no, roots = (np.clip(place, 0, max(0, count - 1)) for place in (yes, no, roots))
    feature = np.clip(feature, 0, max(0, op.features - 1))
    tests = tests_of(feature, threshold.astype(kind), branch, yes, no, missing.astype(bool))
    numbers = np.zeros(len(tests.key), np.int64)
    numbers[:count] = leaf = np.clip(leaf, 0, len(weights) - 1)
    nodes, comparisons = packed_nodes(tests, numbers, lanes * np.dtype(kind).itemsize)
    starts = np.zeros((round_up(max(1, len(roots)), lanes), 2), np.int64)
    starts[: len(roots), 0] = roots * NODE_BYTES[np.dtype(kind).itemsize]
    starts[: len(roots), 1] = np.maximum(1, tests.heights(roots, 2 * op.depth))
    dense, *entries = _entries(weights, leaf[(yes == np.arange(count)) & (no == yes)] if len(roots) else leaf[:0])
    arrays = (comparisons, np.array([len(comparisons), int(dense)], np.int64), nodes, starts, *entries)
    return tuple(array if array.size else np.zeros(2, array.dtype) for array in arrays)


def _entries(weights: Array, reached: Array) -> tuple[bool, Array, Array, Array]:
    """Whether the leaves that are reached say something of every target; first entry by leaf, entries' targets, weights."""
    said = ~np.isnan(weights)
    dense = reached.size > 0 and bool(said[reached].all())
    first = np.concatenate([[0], np.cumsum(said.sum(axis=1))]).astype(np.int64)
    places = np.nonzero(np.ones_like(said) if dense else said)
    return dense, first, places[1].astype(np.int64), weights[places].astype(np.float64)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x, y, roots = cast(TreeEnsemble, problem.op), problem.input(0), problem.outputs[0], problem.input(8)
    lanes, tiles = schedule["lanes"], schedule["tiles"]
    tiles = max(1, min(tiles, -(-x.shape[0] // lanes)))
    comparisons = min(2 * x.shape[1], 2 * problem.input(1).size)
    share = odd_lines(8 * lanes + tiles * lanes * (16 * y.shape[1] + comparisons * x.dtype.itemsize))
    kernel = KernelSpec.of("tree_ensemble", dtype=x.dtype.value, result=y.dtype.value, lanes=lanes)
    words: tuple[Word, ...] = (
        source(0), target_of(0), *x.shape, y.shape[1], roots.size, packed(0), packed(1), packed(1, 8), packed(2), packed(3),
        packed(4), packed(5), packed(6), tiles, max(1, roots.size) if op.aggregate == "average" else 1,
        scratch(0), share, comparisons, _MEETINGS[op.aggregate], int(op.marked),
    )  # fmt: skip
    return Built(launches=(Launch(kernel, words),), scratch=share * problem.threads)


TREE_ENSEMBLE_LOCKSTEP_ANY = Routine(
    name="tree_ensemble.lockstep.any.plain",
    op=TreeEnsemble,
    reject=_reject,
    signatures=_signatures,
    build=_build,
    schedules=_schedules,
    pack=_pack,
    packs=_PACKED,
)
