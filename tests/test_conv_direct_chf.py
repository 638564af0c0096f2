"""conv.direct.f32.chf against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

import pytest
from oracle import cases, check, runnable_targets

from softneuro.codegen.target import host
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.problem import Problem
from softneuro.routines.conv_direct_chf import CONV_DIRECT_F32_CHF
from softneuro.types import DType, TensorType


def conv(x: tuple[int, ...], k: int, kernel: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
         pads: tuple[int, ...] | None = None, dilations: tuple[int, ...] | None = None, groups: int = 1,
         bias: bool = True, epilogue: Epilogue = NO_EPILOGUE, constant: bool = True) -> Problem:
    rank = len(kernel)
    op = Conv(strides or (1,) * rank, pads or (0,) * 2 * rank, dilations or (1,) * rank, groups, bias, epilogue)
    inputs = [TensorType(DType.F32, x), TensorType(DType.F32, (k, x[1] // groups, *kernel))]
    if bias:
        inputs.append(TensorType(DType.F32, (k,)))
    known = [False] + [constant] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        known.append(False)
    return Problem.of(op, tuple(inputs), tuple(known))


PROBLEMS = {
    "pointwise": conv((1, 8, 12, 12), 16, (1, 1)),
    "pointwise_pixels_left_over": conv((2, 5, 7, 9), 13, (1, 1), epilogue=Epilogue("relu")),
    "pointwise_one_pixel": conv((1, 24, 1, 1), 10, (1, 1)),
    "pointwise_padded": conv((1, 3, 4, 20), 6, (1, 1), pads=(1, 2, 0, 1)),
    "pointwise_stride_two": conv((1, 4, 9, 33), 6, (1, 1), strides=(2, 2)),
    "three_by_three_same": conv((1, 3, 8, 33), 12, (3, 3), pads=(1, 1, 1, 1), epilogue=Epilogue("relu")),
    "image_input_stride_two": conv((1, 3, 11, 40), 16, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), bias=False),
    "seven_by_seven_stride_two": conv((1, 3, 15, 75), 8, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3)),
    "stride_larger_than_kernel": conv((1, 2, 10, 70), 5, (2, 2), strides=(4, 3)),
    "rows_the_stride_drops": conv((1, 2, 6, 18), 4, (2, 2), strides=(3, 3)),
    "dilated_stride_two": conv((1, 2, 13, 45), 4, (3, 3), strides=(2, 2), dilations=(2, 3), pads=(2, 3, 2, 3)),
    "grouped": conv((2, 12, 5, 18), 20, (3, 3), groups=4, pads=(1, 1, 1, 1)),
    "depthwise_with_multiplier": conv((1, 3, 5, 18), 6, (3, 3), groups=3, pads=(1, 1, 1, 1)),
    "pad_wider_than_kernel": conv((1, 2, 3, 3), 4, (2, 2), pads=(3, 3, 3, 3)),
    "one_dimensional": conv((2, 6, 39), 20, (5,), pads=(2, 2), strides=(2,)),
    "one_dimensional_pointwise": conv((1, 6, 37), 4, (1,)),
    "residual_before_relu": conv((1, 4, 5, 7), 9, (1, 1), epilogue=Epilogue("relu", (), "before")),
    "residual_after_silu": conv((1, 4, 5, 20), 9, (3, 3), pads=(1, 1, 1, 1), epilogue=Epilogue("silu", (), "after")),
}
CASES = [case for name, target in runnable_targets().items() for problem in PROBLEMS
         for index, case in enumerate(cases(CONV_DIRECT_F32_CHF, {problem: PROBLEMS[problem]}, {name: target}))
         if index == 0 or target == host()]  # every schedule is compiled: one is enough for other targets


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(CONV_DIRECT_F32_CHF, problem, signature, schedule, target)


@pytest.mark.parametrize("name", ["pointwise", "grouped", "image_input_stride_two"])
def test_work_is_shared_by_threads(name: str) -> None:
    problem = PROBLEMS[name]
    schedule = CONV_DIRECT_F32_CHF.schedules(problem, host())[0]
    check(CONV_DIRECT_F32_CHF, problem, CONV_DIRECT_F32_CHF.signatures(problem)[0], schedule, host(), threads=3)


REFUSALS = {
    "found 3 spatial axes, needed 1 or 2": conv((1, 2, 4, 4, 4), 3, (1, 1, 1)),
    "found weights that are computed at run time, needed constants": conv((1, 2, 4, 4), 3, (1, 1), constant=False),
    "found 4294967296 bytes of padded input a group, needed less than 2^31": conv(
        (1, 1 << 14, 1 << 8, 1 << 8), 1, (1, 1)),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_refusals_say_found_and_needed(reason: str) -> None:
    assert CONV_DIRECT_F32_CHF.reject(REFUSALS[reason], host()) == reason
