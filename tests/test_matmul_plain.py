"""matmul.plain.any.chf against numpy.matmul: float64 and integers."""

from __future__ import annotations

import pytest
from oracle import cases, check, runnable_targets

from softneuro.ops.epilogue import Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.matmul_plain import MATMUL_PLAIN_ANY
from softneuro.types import DType, TensorType

TARGETS = runnable_targets()
Shape = tuple[int, ...]


def matmul(a: Shape, b: Shape, dtype: DType = DType.F64, **fields: bool) -> Problem:
    types = [TensorType(dtype, a), TensorType(dtype, b)]
    if fields.get("bias"):
        types.append(TensorType(dtype, b[-1:]))
    return Problem.of(MatMul(**fields), tuple(types), (False,) * len(types))


PROBLEMS = {
    "whole_blocks_and_a_rest": matmul((5, 7), (7, 150)),
    "fewer_columns_than_a_vector": matmul((5, 7), (7, 3)),
    "batches_that_broadcast": matmul((2, 1, 4, 5), (3, 5, 6)),
    "one_right_side_for_all": matmul((2, 3, 4, 5), (5, 6)),
    "vectors": matmul((9,), (9,)),
    "row_times_matrix": matmul((9,), (9, 20)),
    "transposed_left": matmul((2, 7, 5), (2, 7, 9), transpose_a=True),
    "transposed_right": matmul((2, 4, 37), (3, 1, 5, 37), transpose_b=True),
    "transposed_right_of_bytes": matmul((3, 90), (4, 90), DType.U8, transpose_b=True),
    "transposed_right_and_bias": Problem.of(
        MatMul(transpose_b=True, bias=True), tuple(TensorType(DType.I64, s) for s in ((3, 5), (4, 5), (4,))), (False,) * 3),
    "bias": matmul((5, 7), (7, 70), bias=True),
    "nothing_to_sum": matmul((3, 0), (0, 5)),
    "empty": matmul((0, 4), (4, 5)),
    "i32": matmul((5, 7), (7, 70), DType.I32),
    "u64": matmul((5, 7), (7, 20), DType.U64),
    "wrapping_bytes": matmul((3, 90), (90, 70), DType.I8),
}
CASES = cases(MATMUL_PLAIN_ANY, PROBLEMS, TARGETS)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(MATMUL_PLAIN_ANY, problem, signature, schedule, target, threads=threads)


REFUSED = {
    "f32": (matmul((2, 3), (3, 4), DType.F32), "found f32 operands, needed one of f64, i8"),
    "both_turned": (matmul((3, 2), (4, 3), transpose_a=True, transpose_b=True),
                    "found both sides transposed, needed at most one of them"),
    "epilogue": (Problem.of(MatMul(epilogue=Epilogue("relu")), matmul((2, 3), (3, 4)).inputs, (False, False)),
                 "found the epilogue relu, needed none"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_say_found_and_needed(case: tuple[Problem, str]) -> None:
    problem, reason = case
    found = MATMUL_PLAIN_ANY.reject(problem, next(iter(TARGETS.values())))
    assert found is not None and found.startswith(reason)
