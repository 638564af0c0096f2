"""NaN, infinities, negative zeros, denormal and huge numbers through every float routine, against the numpy references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from oracle import accumulation_length, execute, runnable_targets
from test_conv_depthwise import depthwise
from test_conv_igemm import conv
from test_conv_transpose import transposed
from test_matmul import matmul
from test_norm import layer_norm
from test_pool import global_pool, pool
from test_reduce import COMPILED, reduce
from test_softmax import softmax

from softneuro.codegen.target import Target, host
from softneuro.ops.adapt import Adapt
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.padding import Pad
from softneuro.ops.resize import Resize
from softneuro.problem import Problem
from softneuro.routines.candidates import narrow_dtypes_of
from softneuro.routines.routine import Routine, Signature
from softneuro.routines.table import ROUTINES
from softneuro.types import Array, DType, TensorType

SAME = (1, 1, 1, 1)
RELU, CLIP = Epilogue("relu"), Epilogue("clip", (0.0, 6.0))
TARGETS = runnable_targets()


def of_one(op: object, *shape: int) -> Problem:
    return Problem.of(op, (TensorType(DType.F32, shape),), (False,))  # type: ignore[arg-type]


def resize(mode: str, *sizes: int) -> Problem:
    return of_one(Resize(mode, sizes=(1, 16, *sizes), scales=(1.0, 1.0, sizes[0] / 5, sizes[1] / 6)), 1, 16, 5, 6)


PROBLEMS = {
    "conv_pointwise_relu": conv((1, 16, 5, 5), 32, (1, 1), epilogue=RELU),
    "conv_same_relu": conv((1, 16, 7, 7), 32, (3, 3), pads=SAME, epilogue=RELU),
    "conv_unaligned_clip": conv((2, 5, 6, 7), 37, (3, 3), pads=(1, 0, 1, 2), epilogue=CLIP),
    "conv_residual_before_relu": conv((1, 16, 5, 5), 33, (1, 1), epilogue=Epilogue("relu", (), "before")),
    "conv_residual_after_silu": conv((1, 16, 5, 5), 16, (1, 1), epilogue=Epilogue("silu", (), "after")),
    "conv_stem": conv((1, 3, 29, 29), 64, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3), epilogue=RELU),
    "conv_depthwise_relu": depthwise((1, 16, 9, 10), (3, 3), pads=SAME, epilogue=RELU),
    "conv_depthwise_unaligned": depthwise((2, 21, 7, 7), (3, 3), pads=SAME),
    "conv_depthwise_clip_wide": depthwise((1, 3, 5, 37), (3, 3), pads=SAME, epilogue=CLIP),
    "conv_transpose_relu": transposed((1, 24, 6, 7), 24, (2, 2), strides=(2, 2), epilogue=RELU),
    "conv_transpose_overlapping": transposed((2, 5, 4, 6), 33, (4, 4), strides=(2, 2), pads=SAME),
    "matmul_row_relu": matmul((1, 50), (50, 70), bias=True, epilogue=RELU),
    "matmul_unaligned": matmul((37, 19), (19, 83), bias=True),
    "matmul_clip": matmul((9, 16), (16, 48), bias=True, epilogue=Epilogue("clip", (-1.0, 6.0))),
    "matmul_transposed": matmul((40, 17), (50, 40), ta=True, tb=True),
    "matmul_batched": matmul((2, 20, 32), (2, 48, 32), tb=True, constant=False),
    "softmax_rows": softmax((9, 77)),
    "softmax_short_rows": softmax((30, 3)),
    "softmax_columns": softmax((2, 21, 5, 7), 1),
    "log_softmax_rows": softmax((9, 50), log=True),
    "log_softmax_columns": softmax((2, 7, 20), 1, log=True),
    "layer_norm": layer_norm((9, 149)),
    "layer_norm_short": layer_norm((20, 3)),
    **{f"{kind}_pool_{name}": pool(kind, x, kernel, **options) for kind in ("max", "average") for name, x, kernel, options in (
        ("two_by_two", (1, 16, 8, 8), (2, 2), {"strides": (2, 2)}),
        ("same", (1, 37, 9, 35), (3, 3), {"pads": SAME}),
        ("global", (2, 33, 6, 5), (6, 5), {}),
    )},
    **{f"global_{kind}_pool": global_pool(kind, 2, 37, 7, 7) for kind in ("max", "average")},
    **{f"reduce_rows_{kind}": reduce((9, 83), (1,), kind) for kind in COMPILED},
    **{f"reduce_columns_{kind}": reduce((6, 83), (0,), kind) for kind in COMPILED},
    "resize_nearest": resize("nearest", 10, 12),
    "resize_linear_up": resize("linear", 10, 12),
    "resize_linear_odd": resize("linear", 7, 9),
    "resize_cubic": resize("cubic", 10, 12),
    "pad_reflect": of_one(Pad("reflect", (0, 0, 1, 2, 0, 0, 2, 1)), 1, 16, 5, 6),
    "adapt": of_one(Adapt(), 1, 20, 5, 9),
}  # fmt: skip

UNDERFLOW = 1e-37  # squares of denormal numbers vanish
Case = tuple[str, Routine, Problem, Signature, Target]


def listed() -> list[Case]:
    """Every routine of the table on every problem it takes: all formats of the tensors' own types, the default schedule."""
    return [
        (f"{name}-{routine.name}-{signature}-{target_name}", routine, problem, signature, target)
        for name, problem in PROBLEMS.items() for routine in ROUTINES[type(problem.op)]
        for target_name, target in TARGETS.items() if routine.reject(problem, target) is None
        for signature in routine.signatures(problem) if not narrow_dtypes_of(problem, routine, signature)
    ]


CASES = listed()
SUMMING = [case for case in CASES if "winograd" not in case[1].name]
WINOGRAD = [case for case in CASES if "winograd" in case[1].name]
ON_HOST = [case for case in CASES if case[4] == host()]
NEVER_OVERFLOW = ("max_pool", "global_max", "softmax", "log_softmax", "reduce_rows_max", "reduce_rows_min", "reduce_columns_max",
                  "reduce_columns_min", "resize_nearest", "pad", "adapt")
"""Problems whose results fit float32 however large their inputs are."""


def sprinkled(values: Sequence[float], share: float) -> Callable[[Array, np.random.Generator], Array]:
    """Data in which a share of the elements is replaced by special values."""
    def change(data: Array, rng: np.random.Generator) -> Array:
        return np.where(rng.random(data.shape) < share, rng.choice(values, data.shape), data).astype(np.float32)

    return change


def flat(value: float) -> Callable[[Array, np.random.Generator], Array]:
    return lambda data, rng: np.full(data.shape, value, np.float32)


FILLINGS: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    "some_nan": sprinkled([math.nan], 0.02),
    "one_kind_of_infinity": sprinkled([math.inf], 0.02),
    "both_infinities": sprinkled([math.inf, -math.inf], 0.1),
    "everything": sprinkled([math.nan, math.inf, -math.inf, -0.0, 1e-40], 0.1),
    "all_nan": flat(math.nan),
    "all_negative_infinity": flat(-math.inf),
    "denormal": lambda data, rng: (data * 1e-39).astype(np.float32),
    "negative_zeros": flat(-0.0),
    "huge": sprinkled([3e38, -3e38], 0.3),
}


def filled(problem: Problem, fill: Callable[[Array, np.random.Generator], Array]) -> list[Array | None]:
    """Normal data without zeros in constants, special data in what is computed."""
    rng = np.random.default_rng(5)
    values: list[Array | None] = []
    for type_, constant in zip(problem.inputs, problem.constant, strict=True):
        if type_ is None:
            values.append(None)
            continue
        data = rng.standard_normal(type_.shape).astype(np.float32)
        values.append(data if constant else fill(data, rng))
    return values


def reference(problem: Problem, values: Sequence[Array | None]) -> list[Array]:
    """In float64, where sums do not overflow."""
    with np.errstate(all="ignore"):
        return problem.op.reference([None if v is None else v.astype(np.float64) for v in values])


def assert_alike(what: str, problem: Problem, routine: Routine, got: Array, want: Array) -> None:
    """NaN and infinities in the same places, the rest within the routine's bound."""
    with np.errstate(all="ignore"):
        want = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), f"{what}: places of NaN")
    infinite = np.isinf(want)
    np.testing.assert_array_equal(np.isinf(got), infinite, f"{what}: places of infinities")
    np.testing.assert_array_equal(got[infinite], want[infinite])
    finite = np.isfinite(want)
    scale = max(float(np.max(np.abs(want[finite]), initial=0.0)), 1e-37)
    bound = routine.tolerance * np.finfo(np.float32).eps * math.sqrt(accumulation_length(problem)) * scale
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=bound + UNDERFLOW, err_msg=what)


@pytest.mark.parametrize("case", SUMMING, ids=[case[0] for case in SUMMING])
def test_special_values_as_the_reference(case: Case) -> None:
    _, routine, problem, signature, target = case
    schedule = routine.schedules(problem, target)[0]
    for name, fill in FILLINGS.items():
        if name == "huge" and not case[0].startswith(NEVER_OVERFLOW):
            continue
        values = filled(problem, fill)
        got = execute(routine, problem, signature, schedule, target, values, threads=2)
        for found, want in zip(got, reference(problem, values), strict=True):
            assert_alike(name, problem, routine, found, want)


@pytest.mark.parametrize("case", WINOGRAD, ids=[case[0] for case in WINOGRAD])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_winograd_makes_nan_of_the_tiles_that_read_it(case: Case, value: float) -> None:
    """Where the result is not NaN it is the reference's; NaN beyond it stays within a tile of an affected output."""
    _, routine, problem, signature, target = case
    values = filled(problem, lambda data, rng: data)
    assert values[0] is not None
    values[0][0, 2, 3, 3] = value
    (got,) = execute(routine, problem, signature, routine.schedules(problem, target)[0], target, values)
    (want,) = reference(problem, values)
    known = ~np.isnan(got)
    assert not np.isnan(want[known]).any()
    assert_alike("one value", problem, routine, got[known], want[known])
    assert np.isfinite(got[:, :, 6:, :]).all()  # the rows of tiles that begin below what the value reaches
    assert np.isfinite(got[1:]).all()


@pytest.mark.parametrize("case", ON_HOST, ids=[case[0] for case in ON_HOST])
def test_any_number_of_threads_gives_the_same_bits(case: Case) -> None:
    _, routine, problem, signature, target = case
    values = filled(problem, lambda data, rng: data)

    def run(count: int) -> list[Array]:
        planned = replace(problem, threads=count)
        schedule = routine.schedules(planned, target)[0]
        return execute(routine, planned, signature, schedule, target, values, threads=count)

    alone = run(1)
    for threads in (2, 3, 4, 7):
        for one, shared in zip(alone, run(threads), strict=True):
            np.testing.assert_array_equal(one, shared)
