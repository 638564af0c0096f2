"""reduce.rows.f32.chf and the reduction ops against numpy, on problems named by the edge they hit."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, execute, runnable_targets

from softneuro.errors import InputError
from softneuro.ops.reduce import KINDS, ArgReduce, Reduce
from softneuro.problem import Problem
from softneuro.routines.reduce import REDUCE_ROWS_F32_CHF
from softneuro.types import DType, TensorType

TARGETS = runnable_targets()
COMPILED = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square")
Axes = tuple[int, ...] | None


def reduce(shape: tuple[int, ...], axes: Axes, kind: str = "sum", *, keepdims: bool = True,
           dtype: DType = DType.F32) -> Problem:
    return Problem.of(Reduce(kind, axes, keepdims), (TensorType(dtype, shape),), (False,))


PROBLEMS = {
    "last_axis": reduce((3, 150), (1,)),
    "last_axis_short": reduce((5, 3), (-1,), keepdims=False),
    "first_axis": reduce((7, 150), (0,)),
    "first_axis_few_columns": reduce((7, 5), (0,), keepdims=False),
    "middle_axis": reduce((3, 5, 70), (1,)),
    "everything": reduce((2, 3, 5), None, keepdims=False),
    "spatial_axes": reduce((2, 40, 5, 7), (2, 3), "mean"),
    "spatial_axes_dropped": reduce((2, 40, 5, 7), (2, 3), "mean", keepdims=False),
    "channels": reduce((2, 37, 5, 7), (1,), "max"),
    "channels_dropped": reduce((2, 37, 5, 7), (1,), "max", keepdims=False),
    "every_second_axis": reduce((2, 3, 4, 5), (1, 3)),
    "every_other_axis": reduce((2, 3, 4, 70), (0, 2)),
    "five_alternating_axes": reduce((3, 2, 4, 2, 3), (1, 3), "mean"),
    "batch_and_space": reduce((2, 20, 3, 3), (0, 2, 3), keepdims=False),
    "axes_of_size_one": reduce((1, 20, 1, 6), (0, 2)),
    "one_element": reduce((1, 1), (0, 1)),
    "scalar": reduce((), None),
    **{f"rows_{kind}": reduce((3, 83), (1,), kind) for kind in COMPILED},
    **{f"columns_{kind}": reduce((6, 83), (0,), kind) for kind in COMPILED},
    **{f"rows_{kind}_i64": reduce((3, 83), (1,), kind, dtype=DType.I64) for kind in ("sum", "max")},
    **{f"columns_{kind}_i32": reduce((6, 83), (0,), kind, dtype=DType.I32) for kind in ("min", "prod", "l1", "sum_square")},
    **{f"rows_{kind}_f64": reduce((3, 83), (1,), kind, dtype=DType.F64) for kind in ("mean", "max", "l2")},
    "channels_of_bytes": reduce((2, 37, 5, 7), (1,), "max", dtype=DType.U8),
    "wrapping_bytes": reduce((2, 300), (1,), "sum", dtype=DType.I8),
    "any_flag": reduce((3, 40), (1,), "max", keepdims=False, dtype=DType.BOOL),
    "all_flags": reduce((3, 40), (0,), "min", dtype=DType.BOOL),
}
CASES = cases(REDUCE_ROWS_F32_CHF, PROBLEMS, TARGETS)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(REDUCE_ROWS_F32_CHF, problem, signature, schedule, target)


@pytest.mark.parametrize("name", ["last_axis", "middle_axis", "spatial_axes", "everything"])
def test_work_is_shared_by_threads(name: str) -> None:
    for _, problem, signature, schedule, target in cases(REDUCE_ROWS_F32_CHF, {name: PROBLEMS[name]}, TARGETS):
        check(REDUCE_ROWS_F32_CHF, problem, signature, schedule, target, threads=3)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_logarithms_of_sums(axis: int, target) -> None:
    x = np.random.default_rng(2).uniform(0.1, 9.0, (40, 50)).astype(np.float32)
    problem = reduce(x.shape, (axis,), "log_sum")
    (signature,) = REDUCE_ROWS_F32_CHF.signatures(problem)
    (found,) = execute(REDUCE_ROWS_F32_CHF, problem, signature, {}, target, [x])
    np.testing.assert_allclose(found, problem.op.reference([x.astype(np.float64)])[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("position", [0, 20, 99])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_extremes_pass_on_nan(kind: str, axis: int, position: int, target) -> None:
    x = np.random.default_rng(1).standard_normal((100, 100)).astype(np.float32)
    x[position, 7] = x[7, position] = np.nan
    x[position, 9] = np.inf
    problem = reduce(x.shape, (axis,), kind)
    (signature,) = REDUCE_ROWS_F32_CHF.signatures(problem)
    (found,) = execute(REDUCE_ROWS_F32_CHF, problem, signature, {}, target, [x])
    np.testing.assert_array_equal(found, problem.op.reference([x])[0])


@pytest.mark.parametrize(("shape", "axes", "keepdims", "formats"), [
    ((2, 3, 4, 5), (2, 3), True, ["f32:chf>f32:chf", "f32:chl>f32:chl"]),
    ((2, 3, 4, 5), (2, 3), False, ["f32:chf>f32:plain", "f32:chl>f32:plain"]),
    ((2, 3, 4, 5), (1,), False, ["f32:chf>f32:chf", "f32:chl>f32:chf"]),
    ((2, 3, 4, 5), (3,), False, ["f32:chf>f32:chf", "f32:chl>f32:chl"]),
    ((2, 3, 4, 5), (0,), False, ["f32:chf>f32:chf"]),
    ((2, 3), (1,), True, ["f32:plain>f32:plain"]),
])  # fmt: skip
def test_layouts(shape: tuple[int, ...], axes: Axes, keepdims: bool, formats: list[str]) -> None:
    assert [str(s) for s in REDUCE_ROWS_F32_CHF.signatures(reduce(shape, axes, keepdims=keepdims))] == formats


REFUSED = {
    "log_sum_exp": (reduce((2, 3), (1,), "log_sum_exp"), "found the reduction log_sum_exp of f32, needed one of "),
    "integer_mean": (reduce((2, 3), (1,), "mean", dtype=DType.I64), "found the reduction mean of i64, needed one of "),
    "half": (reduce((2, 3), (1,), dtype=DType.F16), "found f16 input, needed one of f32, f64, bool, i8"),
    "empty": (reduce((2, 0), (1,)), "found nothing to reduce in shape (2, 0), needed an axis and an element"),
    "no_axes": (Problem.of(Reduce("sum", (), True, True), (TensorType(DType.F32, (2, 3)),), (False,)),
                "found nothing to reduce in shape (2, 3), needed an axis and an element"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_say_found_and_needed(case: tuple[Problem, str]) -> None:
    problem, reason = case
    found = REDUCE_ROWS_F32_CHF.reject(problem, next(iter(TARGETS.values())))
    assert found is not None and found.startswith(reason)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_output_type_and_shape(kind: str, dtype: type) -> None:
    x = np.arange(1, 25, dtype=dtype).reshape(2, 3, 4)
    for axes in ((1,), (0, 2), None):
        for keepdims in (True, False):
            op = Reduce(kind, axes, keepdims)
            (y,) = op.reference([x])
            assert (TensorType.of(y),) == op.infer([TensorType.of(x)])


@pytest.mark.parametrize(("kind", "value"), [
    ("sum", 0.0), ("mean", np.nan), ("max", -np.inf), ("min", np.inf), ("prod", 1.0), ("l1", 0.0), ("l2", 0.0),
    ("sum_square", 0.0), ("log_sum", -np.inf), ("log_sum_exp", -np.inf),
])  # fmt: skip
def test_empty_lines_give_the_identity(kind: str, value: float) -> None:
    np.testing.assert_array_equal(Reduce(kind, (1,)).reference([np.zeros((2, 0), np.float32)])[0], [[value]] * 2)


@pytest.mark.parametrize(("axes", "noop", "bound"), [([1], False, (1,)), ([], True, ()), ([-1, 0], False, (-1, 0))])
def test_axes_input_becomes_a_parameter(axes: list[int], noop: bool, bound: tuple[int, ...]) -> None:
    values = [None, np.array(axes, np.int64)]
    types = [TensorType(DType.F32, (2, 3)), TensorType(DType.I64, (len(axes),))]
    found = Reduce("sum", None, True, noop).bind(types, values)
    assert found is not None and found.op == Reduce("sum", bound, True, noop) and found.inputs == (0,)
    with pytest.raises(InputError, match="computed at run time"):
        Reduce("sum").bind(types, [None, None])


@pytest.mark.parametrize(("axes", "reason"), [((2,), "axis is 2, needed one from -2 to 1"), ((0, -2), "at most once")])
def test_axes_that_do_not_fit(axes: tuple[int, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Reduce("sum", axes).infer([TensorType(DType.F32, (2, 3))])


def test_log_sum_exp_does_not_overflow() -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0]], np.float32)
    (y,) = Reduce("log_sum_exp", (1,), False).reference([x])
    np.testing.assert_allclose(y, np.array([1000 + np.log(2), -np.inf, np.inf], np.float32))


@pytest.mark.parametrize(("kind", "last", "wanted"), [
    ("max", False, 1), ("max", True, 2), ("min", False, 0), ("min", True, 3),
])  # fmt: skip
def test_position_of_equal_elements(kind, last: bool, wanted: int) -> None:
    x = np.array([[0, 3, 3, 0]], np.int32)
    (y,) = ArgReduce(kind, 1, False, last).reference([x])
    assert y.dtype == np.int64 and y.tolist() == [wanted]
    (y,) = ArgReduce(kind, -1, True, last).reference([x])
    assert (TensorType.of(y),) == ArgReduce(kind, -1, True, last).infer([TensorType.of(x)])
