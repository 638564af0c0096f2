"""Pointwise programs on tensors kept in fewer bits, and tables of bytes, against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import as_kept, cases, check, execute, runnable_targets
from test_pointwise import pointwise

from softneuro.codegen.target import Target, host
from softneuro.ops.pointwise import Pointwise
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation, encoded
from softneuro.routines.pointwise import (
    POINTWISE_FUSED_BF16_CHF,
    POINTWISE_FUSED_BF16_CHL,
    POINTWISE_FUSED_F16_CHL,
    POINTWISE_FUSED_QINT8_CHF,
    POINTWISE_FUSED_QINT8_CHL,
)
from softneuro.routines.pointwise_lookup import POINTWISE_LOOKUP_QINT8_ANY
from softneuro.routines.routine import Routine
from softneuro.types import DType

X, Y = Quantisation(0.025, 117), Quantisation(0.2, 120)

ROUTINES = (POINTWISE_FUSED_BF16_CHF, POINTWISE_FUSED_BF16_CHL, POINTWISE_FUSED_F16_CHL, POINTWISE_FUSED_QINT8_CHF,
            POINTWISE_FUSED_QINT8_CHL)


def quantised(problem: Problem, y: Quantisation = Y) -> Problem:
    """The problem with quantisations of what is as large as the output."""
    return problem.quantised([*(X if t == problem.outputs[0] else None for t in problem.inputs), y])


PROBLEMS = {name: quantised(problem) for name, problem in {
    "sum": pointwise("add(x0,x1)", "f32[1,37,5,7]", "f32[1,37,5,7]"),
    "sum_of_vectors_of_channels": pointwise("add(x0,x1);relu(t0)", "f32[2,64,4,4]", "f32[2,64,4,4]"),
    "gate": pointwise("mul(x0,x1)", "f32[2,19,5,6]", "f32[2,19,1,1]"),
    "gate_and_skip": pointwise("mul(x0,x1);add(t0,x2)", "f32[2,19,5,6]", "f32[2,19,1,1]", "f32[2,19,5,6]"),
    "chain": pointwise("mul(x0,0.5);clip(t0,-1.0,1.0);add(t1,x1)", "f32[1,40,3,11]", "f32[1,40,3,11]"),
    "matrix": pointwise("hard_swish(x0)", "f32[3,45]"),
    "activation": pointwise("hard_swish(x0)", "f32[1,21,6,5]"),
    "four_inputs": pointwise("mul(x0,x1);add(t0,x2);sub(t1,x3)", "f32[2,9,4,7]", "f32[9,1,1]", "f32[2,9,4,7]", "f32[2,1,4,7]"),
    "one_element": pointwise("add(x0,x1)", "f32[1,1,1,1]", "f32[1,1,1,1]"),
}.items()}  # fmt: skip
CASES = [(routine, case) for routine in ROUTINES for case in cases(routine, PROBLEMS, runnable_targets())]


@pytest.mark.parametrize(("routine", "case"), CASES, ids=[f"{r.name}-{c[0]}" for r, c in CASES])
def test_equals_reference(routine: Routine, case: tuple) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(routine, problem, signature, schedule, target, threads=threads)


LOOKUPS = {
    "picture": pointwise("hard_swish(x0)", "f32[1,21,6,5]"),
    "long": pointwise("sigmoid(x0)", "f32[2,1000]"),
    "whole_registers": pointwise("tanh(x0);mul(t0,x0)", "f32[128]"),
    "not_a_number": pointwise("log(x0)", "f32[3,70]"),
}  # fmt: skip
LOOKUP_CASES = [case for y in (Y, Quantisation(0.004, 0), Quantisation(0.01, 255))
                for case in cases(POINTWISE_LOOKUP_QINT8_ANY, {f"{name}-{y.zero}": quantised(problem, y)
                                                              for name, problem in LOOKUPS.items()}, runnable_targets())]


@pytest.mark.parametrize("case", LOOKUP_CASES, ids=[c[0] for c in LOOKUP_CASES])
def test_tables_give_the_bytes_of_the_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    rng = np.random.default_rng(0)
    for threads in (1, 3):
        values = as_kept(problem, signature, [rng.standard_normal(problem.input(0).shape).astype(np.float32) * 3])
        (got,) = execute(POINTWISE_LOOKUP_QINT8_ANY, problem, signature, schedule, target, values, threads)
        with np.errstate(all="ignore"):
            (want,) = problem.op.reference(values)
        formats, quantisation = signature.outputs[0], problem.output_quantisation()
        np.testing.assert_array_equal(encoded(got, formats, quantisation), encoded(want, formats, quantisation))


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("zeros", [(0, 255), (255, 0)])
def test_saturation_with_zero_points_at_the_ends(zeros: tuple[int, int], target: Target) -> None:
    x, y = (Quantisation(0.02, zero) for zero in zeros)
    problem = PROBLEMS["chain"].quantised((x, x, y))
    routine = POINTWISE_FUSED_QINT8_CHL
    values = [np.random.default_rng(2).standard_normal(t.shape).astype(np.float32) * 9 for t in problem.inputs if t]
    for signature in routine.signatures(problem):
        kept = as_kept(problem, signature, values)
        (got,) = execute(routine, problem, signature, {}, target, kept)
        (want,) = problem.op.reference(kept)
        bytewise = signature.outputs[0].dtype is DType.QINT8
        np.testing.assert_allclose(got, np.clip(want, y.low, y.high) if bytewise else want, rtol=1e-6,
                                   atol=0.0101 if bytewise else 1e-6)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_no_number_in_halves(target: Target) -> None:
    routine, problem = POINTWISE_FUSED_BF16_CHL, PROBLEMS["sum"]
    rng = np.random.default_rng(1)
    values = [rng.choice(np.array([np.nan, np.inf, -np.inf, 1.0, 3e38, -0.0], np.float32), t.shape) for t in problem.inputs if t]
    signature = routine.signatures(problem)[0]
    kept = as_kept(problem, signature, values)
    (got,) = execute(routine, problem, signature, {}, target, kept)
    with np.errstate(all="ignore"):
        (want,) = problem.op.reference(kept)
        want = want.astype(DType.BF16.numpy).astype(np.float32)
    np.testing.assert_array_equal(got, want)


REFUSALS = {
    "found f32[2,3,4] of smaller or constant inputs, needed f32 of an input of that shape": pointwise(
        "add(x0,x1)", "f32[2,1,4]", "f32[2,3,1]"),
    "found bool[2,3,4] of smaller or constant inputs, needed f32 of an input of that shape": pointwise("isnan(x0)", "f32[2,3,4]"),
    "found no quantisations for qint8, needed those of inputs and output": pointwise("relu(x0)", "f32[2,3,4]"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_refusals_say_found_and_needed(reason: str) -> None:
    assert POINTWISE_FUSED_QINT8_CHL.reject(REFUSALS[reason], host()) == reason


@pytest.mark.parametrize(("problem", "reason"), [
    (PROBLEMS["sum"], "found 2 inputs, needed 1"),
    (pointwise("cast_i32(x0)", "f32[4]"), "found f32[4] and i32[4], needed f32, which may be kept as bytes"),
    (pointwise("relu(x0)", "f32[4]"), "found no quantisations, needed those of input and output"),
])  # fmt: skip
def test_refusals_of_tables(problem: Problem, reason: str) -> None:
    assert isinstance(problem.op, Pointwise)
    assert POINTWISE_LOOKUP_QINT8_ANY.reject(problem, host()) == reason
