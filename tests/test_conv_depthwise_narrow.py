"""Depthwise convolution of tensors kept in fewer bits: bytes against exact integer sums, 16-bit floats against the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle import Case, as_kept, cases, check, execute, random_inputs, runnable_targets
from test_conv_depthwise import PROBLEMS, SAME, depthwise

from softneuro.codegen.target import Target, host
from softneuro.ops.epilogue import Epilogue
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.byte_weights import signed_bytes
from softneuro.routines.conv_depthwise_bytes import CONV_DEPTHWISE_QINT8_CHL
from softneuro.routines.conv_depthwise_chl import CONV_DEPTHWISE_BF16_CHL, CONV_DEPTHWISE_F16_CHL
from softneuro.routines.routine import Routine
from softneuro.types import Array, DType

X, Y, RESIDUAL = Quantisation(0.021, 117), Quantisation(0.043, 101), Quantisation(0.03, 140)
NARROW = {
    "two_vectors_and_a_part": depthwise((1, 144, 7, 9), (3, 3), pads=SAME, epilogue=Epilogue("clip", (0.0, 6.0))),
    "one_more_than_a_vector": depthwise((2, 65, 5, 6), (3, 3), strides=(2, 2), pads=SAME, epilogue=Epilogue("relu")),
    "five_by_five_stride_two": depthwise((1, 72, 11, 10), (5, 5), strides=(2, 2), pads=(1, 2, 2, 1)),
    "activation_of_floats": depthwise((1, 40, 6, 6), (5, 5), pads=(2, 2, 2, 2), epilogue=Epilogue("hard_swish")),
    "residual_before_clip": depthwise((1, 50, 6, 7), (3, 3), pads=SAME, epilogue=Epilogue("clip", (-1.0, 1.0), "before")),
    "residual_after": depthwise((1, 80, 6, 7), (3, 3), pads=SAME, epilogue=Epilogue("", (), "after")),
}


def quantised(problem: Problem, x: Quantisation | None = X, y: Quantisation | None = Y) -> Problem:
    inputs: list[Quantisation | None] = [x] + [None] * (len(problem.inputs) - 1)
    if problem.op.epilogue.residual:  # type: ignore[attr-defined]
        inputs[-1] = RESIDUAL
    return problem.quantised([*inputs, y])


BYTES = {name: quantised(problem) for name, problem in {**PROBLEMS, **NARROW}.items()}
EVERY_SCHEDULE = ("three_by_three_same", "two_vectors_and_a_part", "five_by_five", "five_by_five_stride_two")


def expected_of(problem: Problem, values: list[Array | None]) -> Array:
    """The reference on the input's numbers with the rounded weights, in float64."""
    weights = values[1]
    assert weights is not None
    whole, scale = signed_bytes(weights)
    rounded = whole.astype(np.float64) * scale.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    others = [v if i == 1 or v is None else v.astype(np.float64) for i, v in enumerate(values)]
    (want,) = problem.op.reference([rounded if i == 1 else v for i, v in enumerate(others)])
    return want


def check_bytes(case: Case, threads: int = 1, seed: int = 0, factor: float = 1.0) -> None:
    _, problem, signature, schedule, target = case
    values = random_inputs(problem, np.random.default_rng(seed), exact=False)
    values[0] = values[0] * np.float32(factor)
    values = as_kept(problem, signature, values)
    want = expected_of(problem, values)
    (got,) = execute(CONV_DEPTHWISE_QINT8_CHL, problem, signature, schedule, target, values, threads)
    y = problem.output_quantisation()
    if signature.outputs[0].dtype is DType.QINT8:
        assert y is not None
        distance = np.abs(np.clip(want, y.low, y.high) - got) / y.scale
        assert distance.max(initial=0) <= 0.5 + 1e-3  # only ties may go either way
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=3e-6 * max(1.0, float(np.abs(want).max(initial=0))))


def wanted_bytes() -> list[Case]:
    found: list[Case] = []
    for name, target in runnable_targets().items():
        for problem in BYTES:
            listed = cases(CONV_DEPTHWISE_QINT8_CHL, {problem: BYTES[problem]}, {name: target})
            every = target == host() and problem in EVERY_SCHEDULE
            schedules = len(CONV_DEPTHWISE_QINT8_CHL.schedules(BYTES[problem], target))
            found += listed if every else listed[:: schedules]
    return found


CASES = wanted_bytes()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_bytes_equal_exact_sums(case: Case) -> None:
    check_bytes(case)


def the_case(problem: Problem, target: Target, signature: int = 0) -> Case:
    routine = CONV_DEPTHWISE_QINT8_CHL
    return "", problem, routine.signatures(problem)[signature], routine.schedules(problem, target)[0], target


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("channels", [37, 70, 256])
def test_bytes_shared_by_threads(channels: int, threads: int) -> None:
    check_bytes(the_case(quantised(depthwise((2, channels, 4, 5), (3, 3), pads=SAME, threads=threads)), host()), threads)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("zero", [0, 255])
def test_zero_points_at_the_ends(zero: int, target: Target) -> None:
    for y in (0, 255):
        problem = quantised(BYTES["unaligned_channels"], Quantisation(0.02, zero), Quantisation(0.04, y))
        check_bytes(the_case(problem, target))
        check_bytes(the_case(problem, target, 1))


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", ["unaligned_channels", "residual_after", "two_vectors_and_a_part", "activation_of_floats"])
def test_bytes_saturate(name: str, target: Target) -> None:
    """Inputs out of range at both ends, and outputs far out of range."""
    for scale in (0.004, 1e-5, 30.0):
        check_bytes(the_case(quantised(BYTES[name], X, Quantisation(scale, 90)), target), factor=10.0)


def test_bytes_need_quantisations() -> None:
    problem = BYTES["unaligned_channels"]
    reason = CONV_DEPTHWISE_QINT8_CHL.reject(replace(problem, quantisations=()), host())
    assert reason == "found no quantisation of the input, needed one"
    (signature,) = CONV_DEPTHWISE_QINT8_CHL.signatures(quantised(problem, X, None))
    assert str(signature) == "qint8:chl,-,->f32:chl"


def test_weights_as_signed_bytes() -> None:
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((6, 1, 3, 3)).astype(np.float32)
    weights[2] = 0
    weights[3] = np.linspace(-127, 100, 9).reshape(1, 3, 3) // 1 * 0.5
    whole, scale = signed_bytes(weights)
    assert whole.dtype == np.int8 and np.abs(whole.astype(int)).max() <= 127 and scale[2] == 1
    np.testing.assert_array_equal(whole[3] * scale[3], weights[3])
    widest = np.abs(weights).reshape(6, -1).max(axis=1) / 127
    kept = np.abs(whole * scale.reshape(-1, 1, 1, 1) - weights).reshape(6, -1)
    assert (kept.max(axis=1) <= widest * 127 * 0.41 + 1e-6).all()


HALVES = (CONV_DEPTHWISE_BF16_CHL, CONV_DEPTHWISE_F16_CHL)
OF_HALVES = {name: problem for name, problem in {**PROBLEMS, **NARROW}.items() if name in (
    "unaligned_channels", "fewer_channels_than_lanes", "stride_two_asymmetric_pads", "five_by_five_stride_two", "residual_after",
    "residual_before_clip", "image_smaller_than_kernel")}
HALF_CASES = [(routine, case) for routine in HALVES for name, target in runnable_targets().items() for problem in OF_HALVES
              for case in cases(routine, {problem: OF_HALVES[problem]}, {name: target})
              if case[3] == routine.schedules(OF_HALVES[problem], target)[0]]


@pytest.mark.parametrize(("routine", "case"), HALF_CASES, ids=[f"{r.name}-{c[0]}" for r, c in HALF_CASES])
def test_halves_equal_reference(routine: Routine, case: Case) -> None:
    for threads in (1, 3):
        check(routine, *case[1:], threads=threads)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_no_number_in_halves(target: Target) -> None:
    """NaN and infinities go where the reference has them, through the load and the store."""
    problem, routine = depthwise((1, 21, 6, 7), (3, 3), pads=SAME, bias=False), CONV_DEPTHWISE_BF16_CHL
    x = np.random.default_rng(5).standard_normal((1, 21, 6, 7)).astype(np.float32)
    x[0, 3, 2, 2], x[0, 20, 5, 6], x[0, 7, 0, 0] = np.nan, np.inf, -np.inf
    weights = np.full((21, 1, 3, 3), 0.5, np.float32)
    signature, schedule = routine.signatures(problem)[0], routine.schedules(problem, target)[0]
    values = as_kept(problem, signature, [x, weights])
    (got,) = execute(routine, problem, signature, schedule, target, values)
    (want,) = problem.op.reference(values)
    np.testing.assert_allclose(got, want, rtol=2.0**-7, atol=2.0**-6)
