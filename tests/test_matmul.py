"""The matmul routines against numpy.matmul, on problems named by the edge they hit."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, runnable_targets

from softneuro.errors import InputError
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates, rejections
from softneuro.routines.matmul_batched import MATMUL_BATCHED_F32_CHF
from softneuro.routines.matmul_packed import MATMUL_PACKED_F32_PLAIN
from softneuro.routines.matmul_vector import MATMUL_VECTOR_F32_PLAIN
from softneuro.types import DType, TensorType

ROUTINES = (MATMUL_PACKED_F32_PLAIN, MATMUL_VECTOR_F32_PLAIN, MATMUL_BATCHED_F32_CHF)
Shape = tuple[int, ...]


def matmul(a: Shape, b: Shape, *, ta: bool = False, tb: bool = False, bias: bool = False, constant: bool = True,
           epilogue: Epilogue = NO_EPILOGUE, threads: int = 1) -> Problem:
    op = MatMul(ta, tb, bias, epilogue)
    inputs = [TensorType(DType.F32, a), TensorType(DType.F32, b)]
    if bias:
        inputs.append(TensorType(DType.F32, (b[-2] if tb else b[-1],)))
    constants = [False] + [constant] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        constants.append(False)
    return Problem.of(op, tuple(inputs), tuple(constants), threads)


PROBLEMS = {
    "square": matmul((32, 32), (32, 32)),
    "one_element": matmul((1, 1), (1, 1), bias=True),
    "row_times_matrix": matmul((1, 50), (50, 70), bias=True, epilogue=Epilogue("relu")),
    "eight_rows": matmul((2, 4, 20), (20, 70), bias=True, epilogue=Epilogue("relu", (), "before")),
    "few_rows": matmul((5, 33), (33, 129), bias=True),
    "unaligned_everything": matmul((37, 19), (19, 83), bias=True),
    "panels_in_streams": matmul((1, 21), (21, 300), bias=True, epilogue=Epilogue("", (), "after")),
    "one_column": matmul((9, 20), (20, 1)),
    "one_product": matmul((9, 1), (1, 40)),
    "b_transposed": matmul((18, 21), (35, 21), tb=True, bias=True),
    "a_transposed": matmul((21, 18), (21, 35), ta=True),
    "both_transposed": matmul((40, 17), (50, 40), ta=True, tb=True),
    "leading_axes_merge": matmul((2, 3, 7, 12), (12, 20), bias=True),
    "batches_match": matmul((2, 3, 7, 12), (2, 3, 12, 20)),
    "batches_broadcast_both_ways": matmul((2, 1, 7, 12), (3, 12, 20)),
    "batches_transposed": matmul((3, 34, 18), (3, 40, 34), ta=True, tb=True),
    "a_of_lower_rank": matmul((7, 12), (4, 12, 20)),
    "vector_times_matrix": matmul((12,), (12, 20)),
    "vector_times_batch": matmul((12,), (3, 12, 20)),
    "matrix_times_vector": matmul((7, 12), (12,)),
    "vector_times_vector": matmul((12,), (12,)),
    "rows_a_kilobyte_apart": matmul((15, 256), (256, 24)),
    "residual_before_relu": matmul((2, 9, 16), (16, 33), bias=True, epilogue=Epilogue("relu", (), "before")),
    "residual_after_silu": matmul((9, 16), (16, 48), epilogue=Epilogue("silu", (), "after")),
    "clipped": matmul((9, 16), (16, 48), bias=True, epilogue=Epilogue("clip", (-1.0, 6.0))),
    "attention_scores": matmul((2, 20, 32), (2, 48, 32), tb=True, constant=False),
    "run_time_bias": matmul((5, 6), (6, 21), bias=True, constant=False),
}
HOST, *NARROWER = runnable_targets().items()
EVERY_SCHEDULE = ("few_rows", "unaligned_everything", "rows_a_kilobyte_apart", "panels_in_streams")
EVERY_TARGET = ("row_times_matrix", "unaligned_everything", "both_transposed", "residual_before_relu",
                "attention_scores")


def selected(routine) -> list[tuple]:
    """Each schedule and target compiles anew, so most problems run with the first schedule on this machine's target."""
    found = []
    for name, problem in PROBLEMS.items():
        for target in [HOST, *NARROWER] if name in EVERY_TARGET else [HOST]:
            runs = cases(routine, {name: problem}, dict([target]))
            found += runs if name in EVERY_SCHEDULE and target is HOST else runs[:1]
    return [(f"{routine.name}-{run[0]}", routine, *run[1:]) for run in found]


CASES = [case for routine in ROUTINES for case in selected(routine)]


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, routine, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("shapes", [((3, 20, 15), (3, 15, 70)), ((64, 15), (15, 20)), ((1, 15), (15, 300))], ids=str)
def test_work_is_shared_by_threads(routine, threads: int, shapes: tuple[Shape, Shape]) -> None:
    problem = matmul(*shapes, bias=True, threads=threads)
    for _, one, signature, schedule, target in cases(routine, {"": problem}, dict([HOST]))[:1]:
        check(routine, one, signature, schedule, target, threads=threads)


def test_more_threads_than_planned_leave_no_gap() -> None:
    problem = matmul((3, 20, 15), (3, 15, 70), constant=False, threads=2)
    target = HOST[1]
    (signature,) = MATMUL_BATCHED_F32_CHF.signatures(problem)
    schedule = MATMUL_BATCHED_F32_CHF.schedules(problem, target)[0]
    check(MATMUL_BATCHED_F32_CHF, problem, signature, schedule, target, threads=4)


@pytest.mark.parametrize("rows", [1, 3, 9, 40])
def test_few_rows_may_become_others(rows: int) -> None:
    few = matmul((2, 20), (20, 70), bias=True, epilogue=Epilogue("relu", (), "before"))
    other = matmul((rows, 20), (20, 70), bias=True, epilogue=Epilogue("relu", (), "before"))
    for _, _, signature, schedule, target in cases(MATMUL_VECTOR_F32_PLAIN, {"": few}, dict([HOST])):
        check(MATMUL_VECTOR_F32_PLAIN, other, signature, schedule, target)
        built = MATMUL_VECTOR_F32_PLAIN.build(other, signature, schedule, target)
        kernels = MATMUL_VECTOR_F32_PLAIN.kernels(few, signature, schedule, target)
        assert {launch.kernel for launch in built.launches} <= set(kernels)


def test_many_rows_are_left_to_others() -> None:
    problem = matmul((9, 3), (3, 2))
    assert all(candidate.routine is not MATMUL_VECTOR_F32_PLAIN for candidate in candidates(problem, HOST[1]))
    assert (MATMUL_VECTOR_F32_PLAIN.name, "found 9 rows, needed at most 8") in {
        (rejection.routine.name, rejection.reason) for rejection in rejections(problem, HOST[1])}


def test_problem_text_round_trip() -> None:
    for problem in PROBLEMS.values():
        assert Problem.parse(problem.key()) == problem


REFUSED = {
    "double": (MATMUL_PACKED_F32_PLAIN, Problem.of(
        MatMul(), (TensorType(DType.F64, (2, 2)), TensorType(DType.F64, (2, 2))), (False, True)),
        "found f64 input, needed f32"),
    "computed_b": (MATMUL_PACKED_F32_PLAIN, matmul((2, 2), (2, 2), constant=False),
                   "found a right side or bias that is computed at run time, needed constants"),
    "a_transposed": (MATMUL_VECTOR_F32_PLAIN, matmul((3, 9), (3, 2), ta=True),
                     "found a transposed left side, needed rows"),
    "empty_sum": (MATMUL_BATCHED_F32_CHF, matmul((2, 0), (0, 2)),
                  "found operands of shapes (2, 0) and (0, 2), needed at least one element"),
    "offsets_past_int32": (MATMUL_BATCHED_F32_CHF, matmul((64, 1 << 23), (1 << 23, 1)),
                           "found 1073741824 bytes of rows in a tile, needed less than 2^30"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_say_found_and_needed(case: tuple) -> None:
    routine, problem, reason = case
    assert routine.reject(problem, HOST[1]) == reason


@pytest.mark.parametrize(("a", "b", "needed"), [
    ((2, 3), (4, 5), "needed equal counts"),
    ((2, 2, 3), (3, 3, 5), "needed broadcastable ones"),
    ((), (4, 5), "needed at least one axis each"),
])  # fmt: skip
def test_shapes_that_do_not_fit(a: Shape, b: Shape, needed: str) -> None:
    with pytest.raises(InputError, match=needed):
        MatMul().infer((TensorType(DType.F32, a), TensorType(DType.F32, b)))


def test_reference_sums_nothing_to_zero() -> None:
    (y,) = MatMul().reference((np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)))
    assert y.shape == (2, 3) and not y.any()
