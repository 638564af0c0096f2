"""Trees in lock step: every comparison, NaN, leaves that say little, tiles that are not full, odd numbers of trees."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import execute, runnable_targets

from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.ops.trees import TreeEnsemble
from softneuro.problem import Problem
from softneuro.routines.tree_ensemble import TREE_ENSEMBLE_LOCKSTEP_ANY as ROUTINE
from softneuro.routines.tree_nodes import order_keys
from softneuro.types import Array, DType, TensorType

F, D = np.float32, np.float64
FEATURES = 5
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42)
Feeds = list[Array]


def ensemble(trees: int, depth: int, targets: int, branches: tuple[int, ...] = (0,), *, said: float = 1.0, dtype: type = F,
             levels: int = 5, seed: int = 0) -> Feeds:
    """Trees that end early now and then, with few different thresholds, some of them special; all inputs after x."""
    rng = np.random.default_rng(seed)
    yes: list[int] = []
    no: list[int] = []

    def grow(left: int) -> int:
        own = len(yes)
        yes.append(own)
        no.append(own)
        if left and rng.random() < 0.9:
            yes[own] = grow(left - 1)
            no[own] = grow(left - 1)
        return own

    roots = [grow(depth) for _ in range(trees)]
    count = len(yes)
    threshold = rng.integers(-levels, levels + 1, count).astype(dtype) / 4
    threshold[::11] = rng.choice(SPECIAL, len(threshold[::11]))
    weights = rng.standard_normal((count + 1, targets)).astype(dtype)
    weights[rng.random(weights.shape) >= said] = np.nan
    return [rng.integers(0, FEATURES, count), threshold, rng.choice(branches, count).astype(np.uint8), np.array(yes, np.int64),
            np.array(no, np.int64), rng.integers(0, 2, count).astype(bool), np.arange(count), np.array(roots, np.int64), weights]


def samples(n: int, dtype: type = F) -> Array:
    rng = np.random.default_rng(n)
    x = rng.integers(-6, 7, (n, FEATURES)).astype(dtype) / 4
    x.reshape(-1)[::7] = rng.choice(SPECIAL, x.reshape(-1)[::7].size)
    return x


def compare(op: TreeEnsemble, feeds: Feeds, target: Target, threads: int = 1) -> None:
    """The reference's bits, for every schedule."""
    types = tuple(map(TensorType.of, feeds))
    problem = Problem.of(op, types, (False, *[True] * 9), threads)
    assert ROUTINE.reject(problem, target) is None
    (want,) = op.reference(feeds)
    for schedule in ROUTINE.schedules(problem, target):
        for smaller in (schedule, {**schedule, "tiles": 1}):
            (signature,) = ROUTINE.signatures(problem)
            (found,) = execute(ROUTINE, problem, signature, smaller, target, feeds, threads)
            np.testing.assert_array_equal(found, want)


TARGETS = runnable_targets()
ENSEMBLES = {
    "one_tree": ensemble(1, 3, 1),
    "a_leaf_for_a_tree": ensemble(3, 0, 2),
    "no_trees": ensemble(0, 0, 2),
    "deep": ensemble(21, 9, 1),
    "many_targets": ensemble(9, 4, 7),
    "leaves_of_one_target": ensemble(40, 4, 5, said=0.2),
    "leaves_of_nothing": ensemble(3, 4, 3, said=0.0),
    "less": ensemble(9, 5, 1, (1,)),
    "greater_equal": ensemble(9, 5, 1, (2,)),
    "greater": ensemble(9, 5, 1, (3,)),
    "equal": ensemble(9, 5, 1, (4,)),
    "not_equal": ensemble(9, 5, 1, (5,)),
    "all_comparisons": ensemble(30, 6, 2, (0, 1, 2, 3, 4, 5)),
}


@pytest.mark.parametrize("n", [1, 8, 45])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", ENSEMBLES)
def test_equals_reference(name: str, target: Target, n: int) -> None:
    compare(TreeEnsemble(9, features=FEATURES), [samples(n), *ENSEMBLES[name]], target)


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("aggregate", ["sum", "average", "min", "max"])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_aggregates(aggregate: str, marked: bool, target: Target) -> None:
    op = TreeEnsemble(9, aggregate, marked, features=FEATURES)  # type: ignore[arg-type]
    for name in ("many_targets", "leaves_of_one_target", "leaves_of_nothing", "no_trees"):
        compare(op, [samples(19), *ENSEMBLES[name]], target)


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 20])
def test_threads_share_samples(n: int, threads: int) -> None:
    feeds = [samples(n), *ENSEMBLES["all_comparisons"]]
    compare(TreeEnsemble(9, features=FEATURES), feeds, TARGETS[next(iter(TARGETS))], threads)


@pytest.mark.parametrize("nodes", [F, D])
@pytest.mark.parametrize("result", [DType.F32, DType.F64])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_float64(nodes: type, result: DType, target: Target) -> None:
    op = TreeEnsemble(9, dtype=result, features=FEATURES)
    compare(op, [samples(21, D), *ensemble(20, 5, 2, (0, 1, 2, 3, 4, 5), dtype=nodes)], target)


def test_nodes_with_two_parents() -> None:
    """A set's tests for equality all go on with the same node."""
    feeds = ensemble(1, 0, 1)
    threshold, branch = np.array([1, 2, 4, 0, 0], F), np.full(5, 4, np.uint8)
    feeds[:7] = [np.zeros(5, np.int64), threshold, branch, np.array([3, 3, 3, 3, 4]), np.array([1, 2, 4, 3, 4]),
                 np.zeros(5, bool), np.array([0, 0, 0, 0, 1])]
    feeds[8] = np.array([[10], [20]], F)
    x = np.array([[1], [2], [3], [4], [np.nan]], F)
    np.testing.assert_array_equal(TreeEnsemble(3).reference([x, *feeds])[0], F([[10], [10], [20], [10], [20]]))
    for target in TARGETS.values():
        compare(TreeEnsemble(3, features=1), [x, *feeds], target)


@pytest.mark.parametrize("dtype", [F, D])
def test_keys_have_the_order_of_floats(dtype: type) -> None:
    values = np.array([-np.inf, -2, -1e-42, 0, 1e-42, 1, np.inf, np.nan], dtype)
    assert (np.diff(order_keys(values).astype(object)) > 0).all()
    assert order_keys(np.array([-0.0], dtype)) == 0


def test_refusals_say_found_and_needed() -> None:
    target = TARGETS[next(iter(TARGETS))]
    feeds = [samples(3), *ENSEMBLES["one_tree"]]
    types = list(map(TensorType.of, feeds))
    constant = (False, *[True] * 9)
    op = TreeEnsemble(3, features=FEATURES)
    assert ROUTINE.reject(Problem.of(op, tuple(types), (False,) * 10), target) == (
        "found nodes that are computed in the run, needed constants")
    wide = [*types[:2], TensorType(DType.F64, types[2].shape), *types[3:]]
    assert ROUTINE.reject(Problem.of(op, tuple(wide), constant), target) == (
        "found f64 thresholds for f32 samples, needed floats that are not wider")
    half = [TensorType(DType.F16, types[0].shape), *types[1:]]
    assert ROUTINE.reject(Problem.of(op, tuple(half), constant), target) == "found f16 samples and f32 scores, needed f32 or f64"
    with pytest.raises(InputError, match="found 4 features, needed 5"):
        op.infer([TensorType(DType.F32, (2, 4)), *types[1:]])


@pytest.mark.parametrize("name", ENSEMBLES)
def test_made_up_trees_are_valid(name: str) -> None:
    """What is measured: whole trees within the depth, whose leaves are not all the same."""
    feeds = [samples(9), *ENSEMBLES[name]]
    op = TreeEnsemble(9, features=FEATURES)
    made_up = op.made_up(list(map(TensorType.of, feeds)), np.random.default_rng(0))
    assert list(map(TensorType.of, made_up)) == list(map(TensorType.of, feeds))  # type: ignore[arg-type]
    compare(op, made_up, TARGETS[next(iter(TARGETS))])  # type: ignore[arg-type]


def test_trees_that_are_deeper_than_they_say_are_refused() -> None:
    """Nodes of a plan's file are not trusted: what is no leaf has no weights."""
    feeds = [samples(9), *ENSEMBLES["deep"]]
    problem = Problem.of(TreeEnsemble(2, features=FEATURES), tuple(map(TensorType.of, feeds)), (False, *[True] * 9))
    target = TARGETS[next(iter(TARGETS))]
    with pytest.raises(InputError, match="found trees of more than 4 comparisons on the way to a leaf, needed no more"):
        ROUTINE.pack(problem, ROUTINE.schedules(problem, target)[0], target, feeds)
