"""CumSum, Trilu and OneHot: the routines against the ops."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import DynamicShape, InputError, ResourceLimitError
from softneuro.ops.base import Bound, Op
from softneuro.ops.cumulate import CumSum
from softneuro.ops.one_hot import OneHot
from softneuro.ops.trilu import Trilu
from softneuro.routines.cum_sum import CUM_SUM_LINES_ANY
from softneuro.routines.one_hot import ONE_HOT_FILL_ANY
from softneuro.routines.routine import Routine
from softneuro.routines.trilu import TRILU_ROWS_ANY
from softneuro.types import Array, DType, TensorType

ROUTINES: dict[type[Op], Routine] = {CumSum: CUM_SUM_LINES_ANY, Trilu: TRILU_ROWS_ANY, OneHot: ONE_HOT_FILL_ANY}
RNG = np.random.default_rng(0)
VALUES = RNG.integers(-9, 9, (3, 5, 70)).astype(np.float32)
INFINITE = np.array([[np.inf, 1], [2, -np.inf]], np.float32)
CASES: dict[str, tuple[Op, tuple[Array, ...]]] = {
    "sums_of_rows": (CumSum(-1), (VALUES,)),
    "sums_of_columns": (CumSum(0), (VALUES,)),
    "sums_of_the_middle_from_the_end": (CumSum(1, reverse=True), (VALUES,)),
    "sums_before": (CumSum(2, exclusive=True), (VALUES,)),
    "sums_after": (CumSum(1, True, True), (VALUES,)),
    "sums_of_infinities_before": (CumSum(0, True), (INFINITE,)),
    "sums_of_integers": (CumSum(0), (RNG.integers(-9, 9, 33).astype(np.int32),)),
    "sums_that_wrap": (CumSum(0), (np.full(3, 2**62),)),
    "sums_of_a_bool_free_vector_of_one": (CumSum(0), (np.array([2.5]),)),
    "upper": (Trilu(), (VALUES,)),
    "lower": (Trilu(False), (VALUES,)),
    "upper_of_tall": (Trilu(True, -2), (VALUES[0].T.copy(),)),
    "lower_right_of_the_diagonal": (Trilu(False, 3), (RNG.integers(0, 9, (4, 6)),)),
    "upper_of_bytes": (Trilu(True, 1), (RNG.integers(0, 2, (9, 9)).astype(bool),)),
    "nothing_left": (Trilu(True, 2**62), (VALUES,)),
    "everything_left": (Trilu(True, -(2**62)), (VALUES,)),
    "one_hot_last": (OneHot(-1, 7), (RNG.integers(-9, 9, (3, 5)), np.array([0.5, 2], np.float32))),
    "one_hot_first": (OneHot(0, 4), (RNG.integers(-9, 9, (3, 5)).astype(np.int32), np.array([1, 0], np.uint8))),
    "one_hot_middle": (OneHot(1, 3), (RNG.integers(0, 3, (3, 5)), np.array([-1, 2**40]))),
    "one_hot_scalar": (OneHot(-1, 3), (np.array(1), np.array([0, 1], np.float16))),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    op, feeds = CASES[name]
    assert_exact(ROUTINES[type(op)], op, feeds, target, threads)


@pytest.mark.parametrize(("op", "bound"), [
    (CumSum(), Bound(CumSum(1), (0,))),
    (Trilu(), Bound(Trilu(k=1), (0,))),
    (OneHot(), Bound(OneHot(depth=1), (0, 2))),
])  # fmt: skip
def test_parameter_from_an_input(op: Op, bound: Bound) -> None:
    types = (TensorType(DType.I64, (2, 3)), TensorType(DType.I64, (1,)), TensorType(DType.F32, (2,)))
    assert op.bind(types, (None, np.array([1]), None)) == bound
    with pytest.raises(DynamicShape, match="computed at run time"):
        op.bind(types, (None, None, None))


def test_refusals_say_found_and_needed() -> None:
    pair = np.array([0.0, 1.0], np.float32)
    with pytest.raises(InputError, match="axis is 3, needed one from -3 to 2"):
        problem_of(CumSum(3), VALUES)
    with pytest.raises(InputError, match=r"found f32\[2\], needed a tensor of rank 2 or more"):
        problem_of(Trilu(), pair)
    with pytest.raises(InputError, match="found depth -1 and values f32"):
        problem_of(OneHot(depth=-1), np.array([1]), pair)
    with pytest.raises(ResourceLimitError):
        problem_of(OneHot(depth=10**12), np.array([1]), pair)
    reason = CUM_SUM_LINES_ANY.reject(problem_of(CumSum(0), pair.astype(np.float16)), host())
    assert reason == "found f16, needed one of f32, f64, i32, u32, i64, u64"
