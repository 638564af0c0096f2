"""Pooling of tensors kept in fewer bits against the numpy reference on the numbers that the bits stand for."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import as_kept, cases, check, execute, runnable_targets
from test_pool import GLOBAL_PROBLEMS, PROBLEMS, SAME, pool

from softneuro.codegen.target import Target, host
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.global_pool import GLOBAL_POOL_MEAN_BF16_CHL, GLOBAL_POOL_MEAN_F16_CHL, GLOBAL_POOL_MEAN_QINT8_CHL
from softneuro.routines.pool import POOL_WINDOW_BF16_CHL, POOL_WINDOW_F16_CHL, POOL_WINDOW_QINT8_CHL
from softneuro.routines.routine import Routine
from softneuro.types import DType

X, Y = Quantisation(0.021, 117), Quantisation(0.025, 101)


def quantised(problem: Problem, x: Quantisation = X, y: Quantisation = Y) -> Problem:
    return problem.quantised((x, x if problem.op.kind == "max" else y))  # type: ignore[attr-defined]


ROUTINES = (POOL_WINDOW_BF16_CHL, POOL_WINDOW_F16_CHL, POOL_WINDOW_QINT8_CHL)
GLOBAL_ROUTINES = (GLOBAL_POOL_MEAN_BF16_CHL, GLOBAL_POOL_MEAN_F16_CHL, GLOBAL_POOL_MEAN_QINT8_CHL)
WINDOWS = {
    **PROBLEMS,
    "max_wide": pool("max", (1, 150, 7, 9), (3, 3), strides=(2, 2), pads=SAME),
    "max_wider_than_all_vectors": pool("max", (1, 600, 5, 4), (2, 2)),
}
CASES = [
    (routine, case)
    for routines, problems in ((ROUTINES, WINDOWS), (GLOBAL_ROUTINES, GLOBAL_PROBLEMS))
    for routine in routines
    for case in cases(routine, {name: quantised(problem) for name, problem in problems.items()}, runnable_targets())
]


@pytest.mark.parametrize(("routine", "case"), CASES, ids=[f"{r.name}-{c[0]}" for r, c in CASES])
def test_equals_reference(routine: Routine, case: tuple) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(routine, problem, signature, schedule, target, threads=threads)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("zeros", [(0, 255), (255, 0), (255, 255), (0, 0)])
def test_saturation_with_zero_points_at_the_ends(zeros: tuple[int, int], target: Target) -> None:
    x, y = (Quantisation(0.02, zero) for zero in zeros)
    windows, everywhere = POOL_WINDOW_QINT8_CHL, GLOBAL_POOL_MEAN_QINT8_CHL
    for routine, problem in ((windows, PROBLEMS["max_asymmetric_pads"]), (windows, PROBLEMS["average_counts_pads"]),
                             (everywhere, GLOBAL_PROBLEMS["average_unaligned_channels"])):
        of_bytes = quantised(problem, x, y)
        values = np.random.default_rng(2).standard_normal(problem.input(0).shape).astype(np.float32) * 9
        for signature in routine.signatures(of_bytes):
            kept = as_kept(of_bytes, signature, [values])
            (got,) = execute(routine, of_bytes, signature, routine.schedules(of_bytes, target)[0], target, kept)
            (want,) = problem.op.reference(kept)
            if signature.outputs[0].dtype is DType.QINT8:
                kept_as = of_bytes.output_quantisation()
                assert kept_as is not None
                want = np.clip(want, kept_as.low, kept_as.high)
                np.testing.assert_allclose(got, want, rtol=0, atol=0.0101)
            else:
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_no_number_in_halves(target: Target) -> None:
    routine, problem = POOL_WINDOW_BF16_CHL, pool("max", (1, 37, 6, 7), (3, 3), strides=(2, 2), pads=SAME)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 37, 6, 7)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.05] = -np.inf
    (signature,) = routine.signatures(problem)
    values = as_kept(problem, signature, [x])
    (got,) = execute(routine, problem, signature, routine.schedules(problem, target)[0], target, values)
    np.testing.assert_array_equal(got, problem.op.reference(values)[0])


def test_maxima_of_bytes_need_one_quantisation() -> None:
    routine, problem = POOL_WINDOW_QINT8_CHL, PROBLEMS["max_two_by_two"]
    assert routine.reject(problem.quantised((X, X)), host()) is None
    needed = "found no quantisations for qint8, needed one for input and output"
    assert routine.reject(problem.quantised((X, Y)), host()) == needed
    assert GLOBAL_POOL_MEAN_QINT8_CHL.reject(GLOBAL_PROBLEMS["max_one_pixel"], host()) is not None
