"""conv.first.f32.chf_chl against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle import as_kept, cases, check, execute, random_inputs, runnable_targets
from test_conv_igemm import conv

from softneuro.codegen.target import Target, host
from softneuro.ops.epilogue import Epilogue
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.conv_first import CONV_FIRST_F32_CHF_CHL
from softneuro.types import DType

RELU = Epilogue("relu")
PROBLEMS = {
    "resnet_stem": conv((1, 3, 29, 29), 64, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3), epilogue=RELU),
    "mobilenet_stem": conv((2, 3, 21, 32), 32, (3, 3), strides=(2, 2), pads=(0, 0, 1, 1), bias=False),
    "patches": conv((1, 3, 16, 16), 40, (4, 4), strides=(4, 4)),
    "one_channel_unit_stride": conv((1, 1, 9, 40), 6, (5, 5), pads=(2, 2, 2, 2)),
    "stride_wider_than_kernel": conv((1, 2, 11, 17), 16, (2, 2), strides=(3, 5)),
    "pad_wider_than_kernel": conv((1, 4, 3, 3), 8, (2, 2), pads=(3, 3, 3, 3)),
    "pad_wider_than_picture": conv((1, 1, 2, 1), 5, (3, 3), pads=(4, 40, 4, 40)),
    "row_longer_than_a_buffer": conv((1, 1, 2, 700), 8, (1, 9), pads=(0, 4, 0, 4)),
    "dilated_rows": conv((1, 3, 13, 8), 20, (3, 2), dilations=(3, 1), pads=(3, 0, 3, 1)),
    "one_dimensional": conv((2, 2, 57), 24, (10,), strides=(5,), pads=(4, 3)),
    "one_output": conv((1, 3, 7, 7), 17, (7, 7)),
    "residual_before_relu": conv((1, 3, 8, 8), 33, (3, 3), pads=(1, 1, 1, 1), epilogue=Epilogue("relu", (), "before")),
    "residual_after_silu": conv((1, 3, 8, 8), 16, (3, 3), pads=(1, 1, 1, 1), epilogue=Epilogue("silu", (), "after")),
}
CASES = cases(CONV_FIRST_F32_CHF_CHL, PROBLEMS, runnable_targets())


def test_every_problem_is_taken() -> None:
    assert {case[0].split("-")[0] for case in CASES} == set(PROBLEMS)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(CONV_FIRST_F32_CHF_CHL, problem, signature, schedule, target)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", ["resnet_stem", "one_output", "residual_before_relu"])
def test_bytes_are_the_nearest(name: str, target: Target) -> None:
    quantisation = Quantisation(2.0, 120)
    problem = PROBLEMS[name]
    problem = problem.quantised([quantisation] * (len(problem.inputs) + 1))
    (signature,) = (s for s in CONV_FIRST_F32_CHF_CHL.signatures(problem) if s.outputs[0].dtype is DType.QINT8)
    schedule = CONV_FIRST_F32_CHF_CHL.schedules(problem, target)[0]
    values = as_kept(problem, signature, random_inputs(problem, np.random.default_rng(0), exact=True))
    (found,) = execute(CONV_FIRST_F32_CHF_CHL, problem, signature, schedule, target, values)
    np.testing.assert_array_equal(found, quantisation.dequantised(quantisation.quantised(problem.op.reference(values)[0])))


def test_no_bytes_without_a_quantisation() -> None:
    problem = PROBLEMS["residual_before_relu"]
    some = problem.quantised([None] * len(problem.inputs) + [Quantisation(1.0, 0)])
    for found in (problem, some):
        kept = [str(s.outputs[0]) for s in CONV_FIRST_F32_CHF_CHL.signatures(found)]
        assert kept == ["f32:chl", "bf16:chl"]


@pytest.mark.parametrize(("planned", "present"), [(3, 3), (2, 5), (4, 1)])
def test_work_is_shared_by_any_threads(planned: int, present: int) -> None:
    problem = replace(PROBLEMS["resnet_stem"], threads=planned)
    signature = CONV_FIRST_F32_CHF_CHL.signatures(problem)[0]
    schedule = CONV_FIRST_F32_CHF_CHL.schedules(problem, host())[0]
    check(CONV_FIRST_F32_CHF_CHL, problem, signature, schedule, host(), threads=present)


@pytest.mark.parametrize(("problem", "reason"), [
    (conv((1, 64, 8, 8), 8, (3, 3)), "found 64 channels, needed at most 16"),
    (conv((1, 4, 8, 8), 8, (3, 3), groups=2),
     "found rank 4, 2 groups and dilations (1, 1), needed rank 3 or 4, 1 group and no dilation along the last axis"),
])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert CONV_FIRST_F32_CHF_CHL.reject(problem, host()) == reason
