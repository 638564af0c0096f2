"""Pooling routines against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, execute, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.problem import Problem
from softneuro.routines.global_pool import GLOBAL_POOL_MEAN_F32_CHF, GLOBAL_POOL_MEAN_F32_CHL
from softneuro.routines.pool import POOL_WINDOW_F32_CHF, POOL_WINDOW_F32_CHL
from softneuro.types import DType, TensorType


def pool(kind: str, x: tuple[int, ...], kernel: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
         pads: tuple[int, ...] | None = None, dilations: tuple[int, ...] | None = None, ceil_mode: bool = False,
         count_include_pad: bool = False, threads: int = 3) -> Problem:
    rank = len(kernel)
    op = Pool(kind, kernel, strides or (1,) * rank, pads or (0,) * 2 * rank, dilations or (1,) * rank, ceil_mode,
              count_include_pad)
    return Problem.of(op, (TensorType(DType.F32, x),), (False,), threads)


SAME = (1, 1, 1, 1)


def of_kind(kind: str) -> dict[str, Problem]:
    found = {
        "two_by_two": pool(kind, (1, 16, 8, 8), (2, 2), strides=(2, 2)),
        "three_by_three_stride_two": pool(kind, (2, 64, 11, 13), (3, 3), strides=(2, 2), pads=SAME),
        "three_by_three_stride_one": pool(kind, (1, 37, 9, 35), (3, 3), pads=SAME),
        "asymmetric_pads": pool(kind, (1, 5, 7, 6), (3, 2), strides=(2, 1), pads=(2, 0, 0, 1)),
        "ceil_mode": pool(kind, (1, 20, 8, 10), (3, 3), strides=(2, 3), ceil_mode=True),
        "ceil_mode_drops_window_in_pad": pool(kind, (1, 3, 5, 5), (2, 2), strides=(2, 2), pads=SAME, ceil_mode=True),
        "dilated": pool(kind, (1, 9, 12, 11), (3, 3), strides=(1, 2), pads=(1, 2, 2, 1), dilations=(2, 3)),
        "stride_three": pool(kind, (1, 7, 10, 50), (2, 5), strides=(3, 3)),
        "stride_wider_than_shuffles": pool(kind, (1, 3, 7, 120), (2, 3), strides=(5, 6)),
        "five_by_five": pool(kind, (2, 20, 9, 8), (5, 5), pads=(2, 2, 2, 2)),
        "kernel_covers_all": pool(kind, (2, 33, 6, 5), (6, 5)),
        "one_dimensional": pool(kind, (2, 6, 41), (4,), strides=(2,), pads=(1, 1)),
        "three_dimensional": pool(kind, (1, 10, 5, 6, 7), (2, 3, 2), strides=(1, 2, 2), pads=(1, 1, 0, 0, 1, 1)),
    }
    return {f"{kind}_{name}": problem for name, problem in found.items()}


PROBLEMS = of_kind("max") | of_kind("average") | {
    "average_counts_pads": pool("average", (1, 20, 6, 7), (3, 3), strides=(2, 2), pads=SAME, count_include_pad=True),
    "average_counts_pads_not_ceil": pool("average", (1, 3, 6, 7), (3, 3), strides=(2, 3), pads=(1, 0, 1, 1),
                                         ceil_mode=True, count_include_pad=True),
}  # fmt: skip


def global_pool(kind: str, *shape: int, threads: int = 3) -> Problem:
    return Problem.of(GlobalPool(kind), (TensorType(DType.F32, shape),), (False,), threads)


GLOBAL_PROBLEMS = {
    f"{kind}_{name}": global_pool(kind, *shape)
    for kind in ("max", "average")
    for name, shape in {
        "seven_by_seven": (2, 64, 7, 7), "unaligned_channels": (1, 37, 5, 6), "one_pixel": (1, 20, 1, 1),
        "many_pixels": (1, 10, 23, 29), "one_dimensional": (2, 5, 33), "three_dimensional": (1, 17, 3, 4, 5),
    }.items()
}  # fmt: skip
ROUTINES = (POOL_WINDOW_F32_CHL, POOL_WINDOW_F32_CHF)
GLOBAL_ROUTINES = (GLOBAL_POOL_MEAN_F32_CHL, GLOBAL_POOL_MEAN_F32_CHF)
CASES = [
    (routine, case)
    for routines, problems in ((ROUTINES, PROBLEMS), (GLOBAL_ROUTINES, GLOBAL_PROBLEMS))
    for routine in routines
    for case in cases(routine, problems, runnable_targets())
]


@pytest.mark.parametrize(("routine", "case"), CASES, ids=[f"{r.name}-{c[0]}" for r, c in CASES])
def test_equals_reference(routine, case) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(routine, problem, signature, schedule, target, threads=threads)


EDGES = {
    "max_window_misses_input": pool("max", (1, 4, 2, 1), (2, 2), pads=(0, 1, 0, 2), dilations=(1, 2)),
    "average_window_misses_input": pool("average", (1, 4, 2, 1), (2, 2), pads=(0, 1, 0, 2), dilations=(1, 2)),
    "max_of_nan_and_infinities": pool("max", (1, 19, 9, 33), (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "max_of_nan_stride_one": pool("max", (1, 19, 9, 33), (3, 3), pads=(1, 1, 1, 1)),
}
GLOBAL_EDGES = {
    "max_of_nan_and_infinities": global_pool("max", 1, 39, 5, 13),
    "max_of_nan_row_tail": global_pool("max", 1, 64, 3, 3),
}
EDGE_CASES = [
    (routine, case)
    for routines, problems in ((ROUTINES, EDGES), (GLOBAL_ROUTINES, GLOBAL_EDGES))
    for routine in routines
    for case in cases(routine, problems, runnable_targets())
]


@pytest.mark.parametrize(("routine", "case"), EDGE_CASES, ids=[f"{r.name}-{c[0]}" for r, c in EDGE_CASES])
def test_special_values_as_numpy(routine, case) -> None:
    name, problem, signature, schedule, target = case
    rng = np.random.default_rng(1)
    x = rng.standard_normal(problem.inputs[0].shape).astype(np.float32)
    if "nan" in name:
        special = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32), x.shape)
        x = np.where(rng.random(x.shape) < 0.1, special, x)
    (got,) = execute(routine, problem, signature, schedule, target, [x])
    (want,) = problem.op.reference([x])
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("size", "options", "outputs"), [
    (5, {"kernel": 2, "stride": 2}, 2),
    (5, {"kernel": 2, "stride": 2, "ceil_mode": True}, 3),
    (5, {"kernel": 2, "stride": 2, "pads": (1, 1), "ceil_mode": True}, 3),
    (6, {"kernel": 3, "stride": 1, "pads": (1, 1)}, 6),
    (7, {"kernel": 3, "stride": 2, "dilation": 2}, 2),
])  # fmt: skip
def test_output_sizes(size: int, options: dict, outputs: int) -> None:
    op = Pool("max", (options["kernel"],), (options["stride"],), options.get("pads", (0, 0)),
              (options.get("dilation", 1),), options.get("ceil_mode", False))
    assert op.output_size(0, size) == outputs


def test_average_counts_only_what_it_should() -> None:
    x = np.ones((1, 1, 3), np.float32)
    inside = Pool("average", (3,), (2,), (1, 1), (1,))
    padded = Pool("average", (3,), (2,), (1, 1), (1,), count_include_pad=True)
    np.testing.assert_allclose(inside.reference([x])[0], [[[1, 1]]])
    np.testing.assert_allclose(padded.reference([x])[0], [[[2 / 3, 2 / 3]]])


def test_integers_pool_without_infinity() -> None:
    (got,) = Pool("max", (2,), (1,), (1, 0), (1,)).reference([np.array([[[-5, -7]]], np.int8)])
    np.testing.assert_array_equal(got, [[[-5, -5]]])


@pytest.mark.parametrize(("op", "shape", "reason"), [
    (Pool("max", (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), (1, 2, 2, 9), "axis 2 has 2 elements with padding"),
    (Pool("max", (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), (1, 2, 9), "needed rank 4"),
    (GlobalPool("max"), (3,), "needed rank 2 or more"),
])  # fmt: skip
def test_wrong_inputs_say_found_and_needed(op, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        op.infer([TensorType(DType.F32, shape)])


@pytest.mark.parametrize(("routine", "dtype", "shape", "reason"), [
    (POOL_WINDOW_F32_CHL, DType.I8, (1, 2, 5, 5), "found i8 input, needed f32"),
    (POOL_WINDOW_F32_CHF, DType.F32, (1, 2, 5, 5, 5, 5), "found an input of rank 6, needed 3 to 5"),
    (GLOBAL_POOL_MEAN_F32_CHL, DType.F32, (1, 2), "found an input of rank 2, needed 3 or more"),
    (GLOBAL_POOL_MEAN_F32_CHF, DType.F64, (1, 2, 3), "found f64 input, needed f32"),
])  # fmt: skip
def test_refusals_say_found_and_needed(routine, dtype: DType, shape: tuple[int, ...], reason: str) -> None:
    rank = len(shape) - 2
    windows = Pool("max", (2,) * rank, (1,) * rank, (0,) * 2 * rank, (1,) * rank)
    op = GlobalPool("max") if routine.op is GlobalPool else windows
    assert routine.reject(Problem.of(op, (TensorType(dtype, shape),), (False,)), host()) == reason


def test_problem_text_round_trip() -> None:
    for problem in (PROBLEMS | GLOBAL_PROBLEMS).values():
        assert Problem.parse(problem.key()) == problem
