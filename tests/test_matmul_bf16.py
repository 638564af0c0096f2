"""The matmul routines with constant weights of bfloat16 against numpy.matmul on the rounded operands."""

from __future__ import annotations

import numpy as np
import pytest
from graph_building import Builder
from oracle import check, execute, runnable_targets
from test_matmul import PROBLEMS as FLOAT_PROBLEMS
from test_matmul import matmul

from softneuro.codegen.target import host
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.plan.defaults import default_choice
from softneuro.routines.candidates import narrow_dtypes_of
from softneuro.routines.matmul_packed_bf16 import MATMUL_PACKED_BF16_PLAIN
from softneuro.routines.matmul_vector import MATMUL_VECTOR_F32_PLAIN
from softneuro.routines.matmul_vector_bf16 import MATMUL_VECTOR_BF16_PLAIN, MATMUL_VECTOR_BF16_WEIGHTS_PLAIN
from softneuro.routines.routine import Routine
from softneuro.specialise import specialise
from softneuro.tuning.offers import offers_of
from softneuro.types import DType

ROUTINES = (MATMUL_PACKED_BF16_PLAIN, MATMUL_VECTOR_BF16_PLAIN, MATMUL_VECTOR_BF16_WEIGHTS_PLAIN)
PROBLEMS = FLOAT_PROBLEMS | {
    "one_row_of_one": matmul((1, 1), (1, 40), bias=True),
    "odd_depth_in_streams": matmul((3, 21), (21, 150), bias=True, epilogue=Epilogue("relu", (), "before")),
    "batches_of_odd_depth": matmul((3, 5, 7), (3, 7, 20)),
}
EVERY_SCHEDULE = ("few_rows", "panels_in_streams")
EVERY_TARGET = ("row_times_matrix", "unaligned_everything", "odd_depth_in_streams", "batches_of_odd_depth", "one_row_of_one")


def _selected() -> list[tuple]:
    """Each schedule and target compiles anew, so most problems run with the first schedule on this machine's target."""
    found = []
    for routine in ROUTINES:
        for name, problem in PROBLEMS.items():
            for target_name, target in runnable_targets().items():
                if routine.reject(problem, target) is not None or (target != host() and name not in EVERY_TARGET):
                    continue
                offered = routine.schedules(problem, target)
                schedules = offered if name in EVERY_SCHEDULE and target == host() else offered[:1]
                for signature in routine.signatures(problem):
                    label = f"{routine.name}-{name}-{signature}-{target_name}"
                    found += [(f"{label}-{i}", routine, problem, signature, s, target) for i, s in enumerate(schedules)]
    return found


CASES = _selected()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, routine, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("rows", [1, 7])
def test_work_is_shared_by_threads(routine: Routine, threads: int, rows: int) -> None:
    problem = matmul((rows, 15), (15, 300), bias=True, threads=threads)
    for signature in routine.signatures(problem):
        check(routine, problem, signature, routine.schedules(problem, host())[0], host(), threads=threads)


@pytest.mark.parametrize("routine", ROUTINES[1:], ids=lambda routine: routine.name)
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("rows", [1, 3, 9, 40])
def test_few_rows_may_become_others(routine: Routine, target: object, rows: int) -> None:
    few = matmul((2, 21), (21, 70), bias=True, epilogue=Epilogue("relu", (), "before"))
    other = matmul((rows, 21), (21, 70), bias=True, epilogue=Epilogue("relu", (), "before"))
    schedule = routine.schedules(few, target)[0]  # type: ignore[arg-type]
    for signature in routine.signatures(few):
        check(routine, other, signature, schedule, target)  # type: ignore[arg-type]
        built = routine.build(other, signature, schedule, target)  # type: ignore[arg-type]
        kernels = routine.kernels(few, signature, schedule, target)  # type: ignore[arg-type]
        assert {launch.kernel for launch in built.launches} <= set(kernels)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_half_a_pair_leaves_its_neighbours_alone(target: object) -> None:
    problem = matmul((3, 5), (5, 16))
    a = np.ones((3, 5), np.float32)
    a[1] = np.nan
    for routine in ROUTINES:
        schedule = routine.schedules(problem, target)[0]  # type: ignore[arg-type]
        for signature in routine.signatures(problem):
            (found,) = execute(routine, problem, signature, schedule, target, [a, np.ones((5, 16), np.float32)])  # type: ignore[arg-type]
            np.testing.assert_array_equal(found[[0, 2]], 5.0)
            assert np.isnan(found[1]).all()


def test_float32_tensors_with_rounded_weights_count_as_bfloat16() -> None:
    problem = matmul((1, 8), (8, 32))
    (signature,) = MATMUL_VECTOR_BF16_WEIGHTS_PLAIN.signatures(problem)
    assert str(signature) == "f32:plain,->f32:plain"
    assert narrow_dtypes_of(problem, MATMUL_VECTOR_BF16_WEIGHTS_PLAIN, signature) == {DType.BF16}


@pytest.mark.parametrize(("allowed", "narrow"), [((DType.F32,), False), ((DType.F32, DType.F16), False),
                                                 ((DType.F32, DType.BF16), True)])
def test_rounded_weights_are_offered_only_with_bfloat16(allowed: tuple[DType, ...], narrow: bool) -> None:
    builder = Builder()
    y = builder.layer(MatMul(), builder.input(1, 8), builder.constant(np.ones((8, 32), np.float32)))
    graph = specialise(builder.graph(y), {"input0": (1, 8)})
    (offer,) = offers_of([graph], host(), 1, dtypes=allowed).values()
    names = {choice.routine for choice in offer.choices}
    assert MATMUL_VECTOR_F32_PLAIN.name in names
    assert {routine.name for routine in ROUTINES} <= names if narrow else not {r.name for r in ROUTINES} & names


def test_defaults_round_no_weights() -> None:
    choice = default_choice(PROBLEMS["row_times_matrix"], host(), lambda index: ())
    assert choice.routine == MATMUL_VECTOR_F32_PLAIN.name


@pytest.mark.parametrize("case", [
    ("a_transposed", MATMUL_PACKED_BF16_PLAIN, "found a transposed left side, needed rows"),
    ("run_time_bias", MATMUL_PACKED_BF16_PLAIN, "found a right side or bias that is computed at run time, needed constants"),
    ("batches_match", MATMUL_VECTOR_BF16_PLAIN, "found 6 matrices on the right, needed one"),
])  # fmt: skip
def test_refusals_say_found_and_needed(case: tuple) -> None:
    name, routine, reason = case
    assert routine.reject(PROBLEMS[name], host()) == reason
