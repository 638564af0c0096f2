"""Adapt between data types against numpy: rounding to nearest even, saturation, every pair of formats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle import Case, as_kept, cases, execute, runnable_targets

from softneuro.codegen.target import host
from softneuro.ops.adapt import Adapt
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation, encoded
from softneuro.routines.adapt_convert import ADAPT_CONVERT_ANY
from softneuro.types import Array, DType, TensorType

UNEVEN = Quantisation(0.03, 117)


def adapt(shape: tuple[int, ...], quantisation: Quantisation | None = UNEVEN) -> Problem:
    return Problem.of(Adapt(), (TensorType(DType.F32, shape),), (False,)).quantised((quantisation, quantisation))


PROBLEMS = {
    "picture": adapt((1, 35, 5, 7)),
    "few_channels": adapt((2, 3, 11, 13)),
    "matrix": adapt((3, 37)),
    "vector": adapt((5,)),
    "scalar": adapt(()),
    "not_in_bytes": adapt((1, 18, 3, 4), None),
    "one_channel": adapt((1, 1, 9, 9)),
}
CASES = cases(ADAPT_CONVERT_ANY, PROBLEMS, runnable_targets())


def _converted(case: Case, values: Array, threads: int = 1) -> tuple[Array, Array]:
    """What the routine makes of values, and what numpy does, both as they are kept in memory."""
    _, problem, signature, schedule, target = case
    kept = as_kept(problem, signature, [values])[0]
    assert kept is not None
    with np.errstate(over="ignore"):
        want = encoded(kept, signature.outputs[0], problem.output_quantisation())
        found = execute(ADAPT_CONVERT_ANY, problem, signature, schedule, target, [values], threads)[0]
        return encoded(found, signature.outputs[0], problem.output_quantisation()), want


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_numpy(case: Case) -> None:
    values = np.random.default_rng(0).standard_normal(case[1].input(0).shape).astype(np.float32) * np.float32(2)
    np.testing.assert_array_equal(*_converted(case, values))


@pytest.mark.parametrize("name", ["picture", "few_channels"])
def test_work_is_shared_by_threads(name: str) -> None:
    problem = PROBLEMS[name]
    values = np.random.default_rng(1).standard_normal(problem.input(0).shape).astype(np.float32)
    for signature in ADAPT_CONVERT_ANY.signatures(problem):
        np.testing.assert_array_equal(*_converted((name, problem, signature, {}, host()), values, threads=3))


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_bytes_saturate_and_round_to_even(target: object) -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf, 0.49999997, 200.0, -55.0, -55.5], np.float32)
    problem = adapt(halves.shape, Quantisation(1.0, 55))
    to_bytes = [s for s in ADAPT_CONVERT_ANY.signatures(problem)
                if s.inputs[0].dtype is DType.F32 and s.outputs[0].dtype is DType.QINT8]  # type: ignore[union-attr]
    found, want = _converted(("", problem, to_bytes[0], {}, target), halves)  # type: ignore[arg-type]
    np.testing.assert_array_equal(want, np.array([55, 57, 57, 55, 53, 255, 0, 255, 0, 55, 255, 0, 0], np.uint8))
    np.testing.assert_array_equal(found, want)


def test_no_bytes_without_a_quantisation() -> None:
    problem = replace(PROBLEMS["picture"], quantisations=())
    formats = {f for s in ADAPT_CONVERT_ANY.signatures(problem) for f in (*s.inputs, *s.outputs) if f is not None}
    assert {f.dtype for f in formats} == {DType.F32, DType.BF16, DType.F16}


@pytest.mark.parametrize(("low", "high", "scale", "zero"), [
    (0.0, 255.0, 1.0, 0), (-1.0, 254.0, 1.0, 1), (-255.0, 0.0, 1.0, 255), (3.0, 510.0, 2.0, 0), (-2.0, -1.0, 2 / 255, 255),
    (0.0, 0.0, 1.0, 0), (0.0, float("inf"), 1.0, 0), (0.0, 1e-45, 1.0, 0),
])  # fmt: skip
def test_ranges_hold_zero(low: float, high: float, scale: float, zero: int) -> None:
    found = Quantisation.of_range(low, high)
    assert (found.zero, np.float32(found.scale)) == (zero, np.float32(scale))
    assert found.quantised(np.zeros(1)) == [zero] and found.dequantised(np.array([zero], np.uint8)) == [0.0]


@pytest.mark.parametrize(("scale", "zero"), [(0.0, 0), (-1.0, 0), (float("nan"), 0), (1.0, -1), (1.0, 256)])
def test_impossible_quantisations(scale: float, zero: int) -> None:
    with pytest.raises(ValueError, match="needed a positive scale"):
        Quantisation(scale, zero)
