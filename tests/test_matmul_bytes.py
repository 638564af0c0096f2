"""matmul.packed.qint8.plain: to the bit as integer sums in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from byte_reference import BYTES, chosen, expected, real_result
from oracle import Case, as_kept, cases, execute, random_inputs, rounding_bound, runnable_targets

from softneuro.codegen.target import host
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.matmul_bytes import MATMUL_PACKED_QINT8_PLAIN
from softneuro.types import Array, DType, TensorType


def matmul(a: tuple[int, ...], b: tuple[int, ...], *, transpose_b: bool = False, bias: bool = True,
           epilogue: Epilogue = NO_EPILOGUE, zeros: tuple[int, int] = (117, 90)) -> Problem:
    op = MatMul(False, transpose_b, bias, epilogue)
    inputs = [TensorType(DType.F32, a), TensorType(DType.F32, b)]
    if bias:
        inputs.append(TensorType(DType.F32, (b[-2] if transpose_b else b[-1],)))
    constant = [False] + [True] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        constant.append(False)
    quantisations: list[Quantisation | None] = [Quantisation(0.02, zeros[0])] + [None] * (len(inputs) - 1)
    if epilogue.residual:
        quantisations[-1] = Quantisation(0.013, 131)
    return Problem.of(op, tuple(inputs), tuple(constant)).quantised([*quantisations, Quantisation(0.2, zeros[1])])


EXACT = {
    "one_row": matmul((1, 64), (64, 100)),
    "one_row_transposed_weights": matmul((1, 129), (37, 129), transpose_b=True, epilogue=Epilogue("relu")),
    "three_rows_odd_depth": matmul((3, 21), (21, 70), zeros=(0, 0), bias=False),
    "eight_rows": matmul((8, 32), (32, 20), zeros=(255, 3)),
    "many_rows": matmul((40, 36), (36, 131), epilogue=Epilogue("clip", (-1.0, 3.0))),
    "shallow": matmul((5, 3), (3, 17)),
    "three_axes": matmul((2, 11, 24), (24, 66)),
    "several_matrices": matmul((2, 9, 20), (2, 20, 33)),
    "vector": matmul((31,), (31, 33), bias=False),
}
NEAR = {
    "gelu": matmul((11, 24), (24, 66), epilogue=Epilogue("gelu")),
    "residual": matmul((2, 6, 24), (24, 40), epilogue=Epilogue("", (), "before")),
}
EXACT_CASES, NEAR_CASES = (chosen(cases(MATMUL_PACKED_QINT8_PLAIN, listed, runnable_targets())) for listed in (EXACT, NEAR))


def _run(case: Case, threads: int = 1) -> tuple[Array, list[Array | None]]:
    _, problem, signature, schedule, target = case
    values = as_kept(problem, signature, random_inputs(problem, np.random.default_rng(len(case[0])), exact=False))
    return execute(MATMUL_PACKED_QINT8_PLAIN, problem, signature, schedule, target, values, threads)[0], values


def _check_exact(case: Case, threads: int = 1) -> None:
    _, problem, signature, _, target = case
    found, values = _run(case, threads)
    kept = signature.outputs[0].dtype
    want = expected(problem, values, target, as_bytes=kept is BYTES)
    if kept is BYTES:
        y = problem.output_quantisation()
        assert y is not None
        np.testing.assert_array_equal(y.quantised(found), want)
    else:
        np.testing.assert_array_equal(found, want if kept is DType.F32 else want.astype(kept.numpy).astype(np.float32))


@pytest.mark.parametrize("case", EXACT_CASES, ids=[c[0] for c in EXACT_CASES])
def test_equals_integer_sums(case: Case) -> None:
    _check_exact(case)


@pytest.mark.parametrize("case", NEAR_CASES, ids=[c[0] for c in NEAR_CASES])
def test_other_epilogues_are_within_a_step(case: Case) -> None:
    _, problem, signature, _, _ = case
    found, values = _run(case)
    want = real_result(problem, values)
    if signature.outputs[0].dtype is BYTES:
        y = problem.output_quantisation()
        assert y is not None
        want = np.clip(want, y.low, y.high)
    scale = float(np.max(np.abs(want)))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * scale + rounding_bound(problem, signature, 0, scale))


def test_work_is_shared_by_threads() -> None:
    for case in EXACT_CASES:
        if case[0].startswith(("many_rows", "several")):
            _check_exact(case, threads=3)


@pytest.mark.parametrize(("problem", "reason"), [
    (matmul((1, 70000), (70000, 1), bias=False), "found sums of 70000 products, needed at most 65536"),
    (Problem.of(MatMul(True), (TensorType(DType.F32, (3, 2)), TensorType(DType.F32, (3, 2))), (False, True)).quantised(
        [Quantisation(1.0, 0), None, None]), "found a transposed left side, needed rows"),
], ids=["deep", "transposed"])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert MATMUL_PACKED_QINT8_PLAIN.reject(problem, host()) == reason
