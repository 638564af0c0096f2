"""conv.first.qint8.chl: to the bit as integer sums in numpy, from floats and from bytes."""

from __future__ import annotations

import numpy as np
import pytest
from byte_reference import BYTES, chosen, expected
from oracle import Case, as_kept, cases, execute, random_inputs, runnable_targets
from test_conv_bytes import CLIP, RELU, SAME, conv

from softneuro.codegen.target import host
from softneuro.problem import Problem
from softneuro.quantisation import encoded
from softneuro.routines.conv_first_bytes import CONV_FIRST_QINT8_CHL

PROBLEMS = {
    "stem": conv((1, 3, 37, 41), 32, (3, 3), strides=(2, 2), pads=SAME, epilogue=RELU),
    "seven_by_seven": conv((2, 3, 30, 34), 64, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3), epilogue=RELU, zeros=(114, 0)),
    "grey": conv((1, 1, 28, 28), 20, (5, 5), pads=(2, 2, 2, 2), epilogue=CLIP, zeros=(0, 17)),
    "two_channels_uneven_pads": conv((1, 2, 13, 11), 70, (3, 2), pads=(2, 0, 1, 3), bias=False, zeros=(255, 255)),
    "four_channels_dilated_rows": conv((1, 4, 15, 9), 24, (3, 3), dilations=(2, 1), pads=(2, 1, 2, 1)),
    "stride_three_no_pads": conv((1, 3, 20, 19), 16, (3, 3), strides=(3, 3)),
    "one_dimensional": conv((2, 3, 50), 12, (5,), strides=(2,), pads=(2, 2)),
    "narrow_picture": conv((1, 3, 40, 3), 16, (3, 3), pads=SAME),
    "many_rows": conv((1, 3, 150, 60), 16, (3, 3), strides=(2, 2), pads=SAME),
}
CASES = chosen(cases(CONV_FIRST_QINT8_CHL, PROBLEMS, runnable_targets()))


def _check(case: Case, threads: int = 1) -> None:
    _, problem, signature, schedule, target = case
    values = as_kept(problem, signature, random_inputs(problem, np.random.default_rng(len(case[0])), exact=False))
    found = execute(CONV_FIRST_QINT8_CHL, problem, signature, schedule, target, values, threads)[0]
    kept = signature.outputs[0]
    want = expected(problem, values, target, as_bytes=kept.dtype is BYTES)
    if kept.dtype is BYTES:
        found = np.moveaxis(encoded(found, kept, problem.output_quantisation()), -1, 1)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_integer_sums(case: Case) -> None:
    _check(case)


@pytest.mark.parametrize("threads", [2, 3])
def test_work_is_shared_by_threads(threads: int) -> None:
    for name in ("stem", "seven_by_seven"):
        problem = PROBLEMS[name]
        shared = Problem(problem.op, problem.inputs, problem.outputs, problem.constant, threads, problem.quantisations)
        for signature in CONV_FIRST_QINT8_CHL.signatures(shared):
            schedule = CONV_FIRST_QINT8_CHL.schedules(shared, host())[0]
            _check((name, shared, signature, schedule, host()), threads)


@pytest.mark.parametrize(("problem", "reason"), [
    (conv((1, 5, 9, 9), 8, (3, 3)), "found 5 channels, needed at most 4"),
    (conv((1, 3, 9, 9), 8, (3, 3), dilations=(1, 2)), "found rank 4, 1 groups and dilations (1, 2), "
     "needed rank 3 or 4, 1 group and no dilation along the last axis"),
], ids=["channels", "dilated"])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert CONV_FIRST_QINT8_CHL.reject(problem, host()) == reason
