"""quantised_state_lstm.steps.f32.chf against numpy in float32, and its rounding bit by bit."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import execute, random_inputs, runnable_targets
from test_recurrent import ACTIVATIONS, recurrent

from softneuro.codegen.target import Target
from softneuro.ops.integer import QuantisedStateLstm
from softneuro.ops.recurrent import Recurrent
from softneuro.problem import Problem
from softneuro.routines.recurrent import QUANTISED_STATE_LSTM_STEPS_F32_CHF as ROUTINE
from softneuro.routines.routine import Schedule
from softneuro.types import Array, DType, TensorType

TARGETS = runnable_targets()
HOST = next(iter(TARGETS.values()))
SCHEDULE = {"rows": 2, "blocks": 2, "split": 0, "mr": 4, "nv": 2}
KEPT = ("clip(x0,1.0,1.0)", "mul(x0,1.0)", "mul(x0,1.0)")
"""Activations of a cell whose gates are open: a step adds what comes from the state to the memory, exactly."""


def lstm(steps: int, n: int, features: int, hidden: int, stored: DType = DType.I8, **options: object) -> Problem:
    """As `recurrent`, with rounded states."""
    problem = recurrent("lstm", steps, n, features, hidden, **options)
    op = QuantisedStateLstm(**{field.name: getattr(problem.op, field.name) for field in fields(problem.op)})
    x, w, r, *others = problem.inputs
    scales = TensorType(DType.F32, r.shape[:2])
    return Problem.of(op, (x, w, TensorType(stored, r.shape), *others, scales), (*problem.constant, problem.constant[2]),
                      problem.threads)


def random_values(problem: Problem, seed: int) -> list[Array | None]:
    """Weights use all of their type's range, or of 9 bits, and their real numbers are about 1 at most."""
    rng = np.random.default_rng(seed)
    values, stored = random_inputs(problem, rng, exact=False), problem.input(2)
    most = 127 if stored.dtype is DType.I8 else 255
    values[2] = rng.integers(-most - (most == 127), most + 1, stored.shape).astype(stored.dtype.numpy)
    values[8] = rng.uniform(0.5, 2, problem.input(8).shape).astype(np.float32) / np.float32(most)
    return values


def run(problem: Problem, values: list[Array | None], target: Target = HOST, schedule: Schedule = SCHEDULE,
        threads: int = 1) -> list[Array]:
    assert ROUTINE.reject(problem, target) is None
    (signature,) = ROUTINE.signatures(problem)
    return execute(ROUTINE, problem, signature, schedule, target, values, threads)


def check(problem: Problem, target: Target = HOST, schedule: Schedule = SCHEDULE, threads: int = 1, seed: int = 0) -> None:
    values = random_values(problem, seed)
    for found, want in zip(run(problem, values, target, schedule, threads), problem.op.reference(values), strict=True):
        np.testing.assert_allclose(found, want, rtol=0, atol=2e-5)


EVERYTHING = {"given": "blhcp", "direction": "bidirectional"}
PROBLEMS = {
    "one": lstm(5, 1, 7, 20),
    "whole_vectors": lstm(5, 1, 7, 32, given="bhc"),
    "rows": lstm(4, 5, 7, 20, given="bh"),
    "backwards": lstm(4, 3, 7, 20, given="bhc", direction="reverse"),
    "everything": lstm(4, 3, 5, 19, **EVERYTHING),
    "batch_first": lstm(4, 3, 5, 19, batch_first=True, **EVERYTHING),
    "coupled_clipped": lstm(3, 2, 5, 16, coupled=True, clip=0.7, given="p"),
    "wide_weights": lstm(4, 3, 5, 19, DType.I16, **EVERYTHING),
    "one_unit": lstm(4, 2, 1, 1, **EVERYTHING),
    "no_steps": lstm(0, 2, 3, 5, given="bh"),
    "each_direction_its_own": lstm(4, 2, 5, 19, **EVERYTHING, activations=(
        *ACTIVATIONS["lstm"], "hard_sigmoid(x0,0.2,0.5)", "tanh(x0)", "softsign(x0)")),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_equals_reference(name: str, target: Target) -> None:
    check(PROBLEMS[name], target)


def test_products_without_an_instruction_of_their_own() -> None:
    if "+avx512bw" not in HOST.features:
        pytest.skip("needs a processor with AVX-512BW, which is then not used")
    target = replace(HOST, name="without_avx512bw", features=HOST.features.replace("+avx512bw", "-avx512bw"))
    for name in ("everything", "wide_weights"):
        check(PROBLEMS[name], target)


def test_every_schedule() -> None:
    problem = lstm(4, 5, 7, 40, given="blhc", threads=2)
    schedules = ROUTINE.schedules(problem, HOST)
    assert len(schedules) > 1
    for schedule in schedules:
        check(problem, schedule=schedule)


SHARED = {
    "directions": lstm(4, 1, 5, 40, direction="bidirectional", threads=2),
    "elements": lstm(4, 5, 5, 20, given="blhc", threads=3),
    "units": lstm(4, 2, 5, 100, given="blhc", direction="reverse", threads=3),
    "units_of_both_directions": lstm(4, 3, 5, 100, given="blhc", direction="bidirectional", threads=2),
    "more_threads_than_blocks": lstm(4, 1, 5, 40, threads=8),
}


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("name", SHARED)
def test_work_is_shared_by_threads(name: str, split: int) -> None:
    for threads in (1, 2, 3, 7):
        check(SHARED[name], schedule=SCHEDULE | {"split": split}, threads=threads)


def exact(steps: int, n: int, hidden: int, direction: str = "forward") -> Problem:
    """A cell that adds the rounded states to its memory, step after step: every operation is exact in any order."""
    directions = 2 if direction == "bidirectional" else 1
    return lstm(steps, n, 1, hidden, direction=direction, given="lhc", activations=KEPT * directions)


def exact_values(problem: Problem, states: Array, cells: Array, lengths: Array) -> list[Array | None]:
    """Inputs of `exact`: the product with the state turns a row around by one."""
    d, _, hidden = states.shape
    r = np.zeros((d, 4, hidden, hidden), np.int8)
    r[:, 3] = np.roll(np.eye(hidden, dtype=np.int8), 1, axis=1)
    values = random_inputs(problem, np.random.default_rng(0), exact=True)
    return [values[0], np.zeros_like(values[1]), r.reshape(d, 4 * hidden, hidden), None, lengths.astype(np.int32), states, cells,
            None, np.ones((d, 4 * hidden), np.float32)]


def check_exactly(problem: Problem, values: list[Array | None], target: Target = HOST, schedule: Schedule = SCHEDULE,
                  threads: int = 1) -> None:
    with np.errstate(all="ignore"):
        expected = problem.op.reference(values)
    for found, want in zip(run(problem, values, target, schedule, threads), expected, strict=True):
        np.testing.assert_array_equal(found, want)


_NORMAL = np.random.default_rng(1).standard_normal(37).astype(np.float32)
STATES = {
    "both_signs": _NORMAL,
    "all_positive": np.abs(_NORMAL) + 1,
    "all_negative": -np.abs(_NORMAL) - 1,
    "one_large": np.where(np.arange(37) == 36, np.float32(1e4), _NORMAL),
    "halves_between_steps": np.float32(255) - np.arange(37, dtype=np.float32) * 7.5,
    "zero_between_steps": np.where(np.arange(37) == 3, np.float32(-0.5), np.float32(254.5)),
    "all_zero": np.zeros(37, np.float32),
    "negative_zeros": np.full(37, -0.0, np.float32),
    "denormal": np.float32(1e-42) * np.arange(-18, 19, dtype=np.float32),
    "huge": np.where(np.arange(37) % 2 == 0, np.float32(3e38), np.float32(-3e38)),
    "nan_first": np.where(np.arange(37) == 0, np.float32(np.nan), _NORMAL),
    "nan_last": np.where(np.arange(37) == 36, np.float32(np.nan), _NORMAL),
    "infinite": np.where(np.arange(37) == 5, np.float32(np.inf), _NORMAL),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", STATES)
def test_states_are_rounded_as_in_the_reference(name: str, target: Target) -> None:
    problem = exact(2, 2, 37)
    states = np.stack([STATES[name], _NORMAL[::-1] * (0 if name in ("all_zero", "denormal") else 1)])[None]
    values = exact_values(problem, states, np.zeros_like(states), np.array([2, 2]))
    check_exactly(problem, values, target)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    steps, n, hidden = draw(0, 6), draw(1, 6), draw(1, 40)
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    problem, rng = exact(steps, n, hidden, direction), np.random.default_rng(draw(0, 99))
    states, cells = rng.standard_normal((2, 2 if direction == "bidirectional" else 1, n, hidden)).astype(np.float32)
    lengths = np.array([draw(0, steps) for _ in range(n)])
    schedule = SCHEDULE | {"split": draw(0, 1)}
    check_exactly(problem, exact_values(problem, states, cells, lengths), schedule=schedule, threads=draw(1, 3))


def test_the_range_is_that_of_elements_that_ran_a_step_before() -> None:
    problem = exact(4, 2, 5)
    states = np.array([[1, 2, 3, 4, 5], [100, 200, -300, 400, -500]], np.float32)[None]
    results = []
    for length in (0, 1, 4):
        values = exact_values(problem, states, states / 7, np.array([4, length]))
        check_exactly(problem, values)
        results.append(run(problem, values)[0][:, 0, 0])
    for one, other, equal_steps in ((0, 1, 1), (1, 2, 2)):
        np.testing.assert_array_equal(results[one][:equal_steps], results[other][:equal_steps])
        assert (results[one][equal_steps] != results[other][equal_steps]).any()


def test_rounding_matters() -> None:
    problem = PROBLEMS["rows"]
    values = random_values(problem, 0)
    plain = Recurrent(**{field.name: getattr(problem.op, field.name) for field in fields(problem.op)})
    real = [*values[:2], values[2] * values[8][:, :, None], *values[3:8]]
    assert np.abs(run(problem, values)[0] - plain.reference(real)[0]).max() > 1e-3


def test_every_kernel_of_another_batch_is_listed() -> None:
    tuned, other = lstm(4, 5, 7, 20, threads=2), lstm(6, 1, 7, 20, threads=2)
    (signature,) = ROUTINE.signatures(tuned)
    for schedule in ROUTINE.schedules(tuned, HOST):
        built = ROUTINE.build(other, signature, schedule, HOST)
        assert {launch.kernel for launch in built.launches} <= set(ROUTINE.kernels(tuned, signature, schedule, HOST))


REFUSED = {
    "computed_weights": (lstm(4, 3, 5, 6, constant=False), "found weights computed at run time, needed constants"),
    "real_weights": (lstm(4, 3, 5, 6, DType.F32), "found recurrent weights of f32[1,24,6], needed i8 or i16 with scales"),
    "many_units": (lstm(1, 1, 1, 40000), "found 40000 hidden units, needed at most 32768"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_found_and_needed(name: str) -> None:
    problem, reason = REFUSED[name]
    assert ROUTINE.reject(problem, HOST) == reason


def test_units_are_split_only_where_threads_would_be_idle() -> None:
    def splits(**options: object) -> set[int]:
        return {schedule["split"] for schedule in ROUTINE.schedules(lstm(4, 3, 5, 100, **options), HOST)}

    assert splits(threads=2) == splits(threads=3, direction="bidirectional") == {0, 1}
    assert splits(threads=1) == splits(threads=2, direction="bidirectional") == {0}
