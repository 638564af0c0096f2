"""GridSample: all modes and paddings in both layouts, and coordinates that are no numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exact import problem_of
from oracle import cases, check, execute, runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import InputError
from softneuro.ops.grid_sample import GridSample
from softneuro.problem import Problem
from softneuro.routines.grid_sample import GRID_SAMPLE_BLOCKS_F32
from softneuro.types import DType, TensorType

MODES, PADDINGS = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")


def problem(op: GridSample, x: tuple[int, ...], places: tuple[int, int], threads: int = 1) -> Problem:
    types = TensorType(DType.F32, x), TensorType(DType.F32, (x[0], *places, 2))
    return Problem.of(op, types, (False, False), threads)


PROBLEMS = {
    "linear": problem(GridSample(), (2, 21, 5, 7), (9, 8)),
    "two_threads": problem(GridSample(), (1, 3, 9, 4), (13, 11), 2),
    "one_pixel": problem(GridSample(align_corners=True), (1, 2, 1, 1), (3, 3)),
    "one_pixel_reflected": problem(GridSample("nearest", "reflection", True), (1, 2, 1, 1), (3, 3)),
}
ALL = {f"{m}_{p}_{int(a)}": problem(GridSample(m, p, a), (2, 5, 6, 4), (7, 5))  # type: ignore[arg-type]
       for m, p, a in itertools.product(MODES, PADDINGS, (False, True))}


@pytest.mark.parametrize(("name", "case", "signature", "schedule", "target"),
                         cases(GRID_SAMPLE_BLOCKS_F32, PROBLEMS, runnable_targets())
                         + cases(GRID_SAMPLE_BLOCKS_F32, ALL, {"host": host()}))
def test_equals_reference(name: str, case: Problem, signature: object, schedule: object, target: Target) -> None:
    check(GRID_SAMPLE_BLOCKS_F32, case, signature, schedule, target, threads=case.threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ALL)
def test_reads_nothing_outside_for_any_coordinate(name: str) -> None:
    case = ALL[name]
    x = np.random.default_rng(0).standard_normal(case.input(0).shape).astype(np.float32)
    grid = np.resize(np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e6, -1, 1], np.float32), case.input(1).shape)
    with np.errstate(all="ignore"):
        (want,) = case.op.reference((x, grid))
    for signature in GRID_SAMPLE_BLOCKS_F32.signatures(case):
        (got,) = execute(GRID_SAMPLE_BLOCKS_F32, case, signature, {}, host(), (x, grid))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_refusals_say_found_and_needed() -> None:
    x, grid = np.zeros((1, 2, 3, 3), np.float32), np.zeros((1, 2, 2, 2), np.float32)
    with pytest.raises(InputError, match="needed one batch size and a coordinate for each axis after two"):
        problem_of(GridSample(), x, grid[..., :1])
    with pytest.raises(InputError, match="needed floats and at least one pixel"):
        problem_of(GridSample(), x[:, :, :0], grid)
    volume = problem_of(GridSample(), np.zeros((1, 1, 2, 2, 2), np.float32), np.zeros((1, 2, 2, 2, 3), np.float32))
    reason = GRID_SAMPLE_BLOCKS_F32.reject(volume, host())
    assert reason is not None and reason.endswith("needed pictures of rank 4 and an f32 grid")
