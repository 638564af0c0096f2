"""conv.winograd{23,43}.f32.chl against the numpy reference, and their matrices in exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracle import cases, check, execute, random_inputs, runnable_targets
from test_conv_igemm import conv

from softneuro.codegen.target import host
from softneuro.codegen.winograd_matrices import minimal
from softneuro.ops.epilogue import Epilogue
from softneuro.problem import Problem
from softneuro.routines.conv_winograd import (
    CONV_WINOGRAD23_F32_CHL,
    CONV_WINOGRAD43_F32_CHL,
    tile_table,
    transformed_panels,
)
from softneuro.routines.routine import Area, Routine

ROUTINES = {2: CONV_WINOGRAD23_F32_CHL, 4: CONV_WINOGRAD43_F32_CHL}
SAME = (1, 1, 1, 1)
BEFORE, AFTER = Epilogue("relu", (), "before"), Epilogue("silu", (), "after")
PROBLEMS = {
    "whole_tiles": conv((1, 16, 8, 8), 32, (3, 3), pads=SAME),
    "whole_tiles_without_padding": conv((1, 32, 10, 14), 32, (3, 3), bias=False),
    "one_pixel": conv((1, 1, 1, 1), 1, (3, 3), pads=SAME),
    "one_output": conv((1, 17, 3, 3), 16, (3, 3)),
    "smaller_than_a_tile": conv((1, 16, 2, 3), 16, (3, 3), pads=SAME),
    "unaligned_channels": conv((2, 5, 6, 7), 37, (3, 3), pads=(1, 0, 1, 2)),
    "vectors_and_a_rest": conv((1, 35, 9, 5), 83, (3, 3), pads=SAME),
    "one_vector_of_filters": conv((1, 8, 7, 7), 16, (3, 3), pads=SAME),
    "pad_wider_than_kernel": conv((1, 20, 5, 9), 40, (3, 3), pads=(5, 4, 3, 5)),
    "several_blocks": conv((3, 4, 27, 22), 8, (3, 3), pads=SAME),
    "residual_before_relu": conv((1, 16, 9, 8), 48, (3, 3), pads=SAME, epilogue=BEFORE),
    "residual_after_silu": conv((1, 16, 9, 8), 30, (3, 3), pads=SAME, epilogue=AFTER),
    "clipped": conv((1, 16, 5, 5), 32, (3, 3), pads=SAME, epilogue=Epilogue("clip", (0.0, 6.0))),
}
CASES = [(routine, *case) for routine in ROUTINES.values() for case in cases(routine, PROBLEMS, runnable_targets())]


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0].name}-{c[1]}" for c in CASES])
def test_equals_reference(case: tuple) -> None:
    routine, _, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("m", ROUTINES)
@pytest.mark.parametrize("name", ["several_blocks", "vectors_and_a_rest", "one_pixel"])
@pytest.mark.parametrize(("planned", "present"), [(2, 2), (3, 1), (2, 4)])
def test_work_is_shared_by_any_threads(m: int, name: str, planned: int, present: int) -> None:
    problem, routine = replace(PROBLEMS[name], threads=planned), ROUTINES[m]
    for schedule in routine.schedules(problem, host()):
        check(routine, problem, routine.signatures(problem)[0], schedule, host(), threads=present)


def test_threads_are_offered_panels_and_blocks() -> None:
    problem = replace(conv((1, 64, 8, 8), 128, (3, 3), pads=SAME), threads=2)
    routine = CONV_WINOGRAD43_F32_CHL
    schedules = routine.schedules(problem, host())
    built = [routine.build(problem, routine.signatures(problem)[0], schedule, host()) for schedule in schedules]
    assert [s["panels"] for s in schedules] == [1, 0]
    assert [len(b.launches) for b in built] == [2, 1]


@pytest.mark.parametrize("m", ROUTINES)
def test_matrices_filter_exactly(m: int) -> None:
    """A^T ((G g) * (B^T d)) is the filter's output in fractions, for every pair of unit vectors."""
    matrices = minimal(m)
    for tap in range(3):
        for place in range(matrices.n):
            products = [matrices.weights[k][tap] * matrices.input[k][place] for k in range(matrices.n)]
            outputs = [sum((a * p for a, p in zip(row, products, strict=True)), Fraction(0)) for row in matrices.output]
            assert outputs == [Fraction(int(i + tap == place)) for i in range(m)]


@pytest.mark.parametrize("m", ROUTINES)
def test_packed_weights_are_transformed_and_filled_with_zeros(m: int) -> None:
    weights = np.random.default_rng(0).standard_normal((40, 6, 3, 3)).astype(np.float32)
    panels = transformed_panels(weights, m, 32)
    g = np.array(minimal(m).weights, np.float64)
    wanted = np.zeros((2, g.shape[0] ** 2, 8, 32))
    for k in range(40):
        wanted[k // 32, :, :6, k % 32] = (g @ weights[k].astype(np.float64) @ g.T).reshape(6, -1).T
    np.testing.assert_allclose(panels, wanted, rtol=0, atol=1e-5)
    assert panels.shape == wanted.shape and not panels[:, :, 6:].any() and not panels[1, :, :, 8:].any()


def test_tiles_of_all_images_are_listed() -> None:
    tiles = tile_table(conv((2, 2, 5, 4), 3, (3, 3), pads=(1, 1, 1, 1)), 4)
    assert tiles.tolist() == [
        [-40, -1, -1, 0, 4, 4],
        [88, 3, -1, 192, 1, 4],
        [120, -1, -1, 240, 4, 4],
        [248, 3, -1, 432, 1, 4],
    ]


@pytest.mark.parametrize(("m", "most"), [(2, 0.6e-6), (4, 2.0e-6)])
def test_mean_error_of_a_deep_layer(m: int, most: float) -> None:
    problem, routine = conv((1, 256, 12, 12), 32, (3, 3), pads=SAME, bias=False), ROUTINES[m]
    values = random_inputs(problem, np.random.default_rng(0), exact=False)
    wanted = problem.op.reference([None if v is None else v.astype(np.float64) for v in values])[0]
    schedule = routine.schedules(problem, host())[0]
    found = execute(routine, problem, routine.signatures(problem)[0], schedule, host(), values)[0]
    assert np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)) < most


def test_tables_hold_no_addresses() -> None:
    problem = PROBLEMS["several_blocks"]
    built = CONV_WINOGRAD43_F32_CHL.build(problem, CONV_WINOGRAD43_F32_CHL.signatures(problem)[0],
                                          CONV_WINOGRAD43_F32_CHL.schedules(problem, host())[0], host())
    assert np.abs(built.tables[0]).max() < 4 * problem.input(0).size + 4 * problem.outputs[0].size
    assert any(not isinstance(w, int) and w.area is Area.TABLE for w in built.launches[0].words)


@pytest.mark.parametrize("routine", ROUTINES.values(), ids=lambda r: r.name)
@pytest.mark.parametrize(("problem", "reason"), [
    (conv((1, 4, 8, 8), 8, (3, 3), strides=(2, 2)),
     "found kernel (3, 3), strides (2, 2), dilations (1, 1) and 1 groups, needed (3, 3), (1, 1), (1, 1) and 1"),
    (conv((1, 4, 8), 8, (3,)),
     "found kernel (3,), strides (1,), dilations (1,) and 1 groups, needed (3, 3), (1, 1), (1, 1) and 1"),
    (replace(conv((1, 4, 8, 8), 8, (3, 3)), constant=(False, False, False)),
     "found weights that are computed at run time, needed constants"),
])  # fmt: skip
def test_refusals_say_found_and_needed(routine: Routine, problem: Problem, reason: str) -> None:
    assert routine.reject(problem, host()) == reason
