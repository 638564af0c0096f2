"""conv.igemm.f32.chl against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

import pytest
from oracle import cases, check, runnable_targets

from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.problem import Problem
from softneuro.routines.conv_igemm import CONV_IGEMM_F32_CHL
from softneuro.types import DType, TensorType


def conv(x: tuple[int, ...], k: int, kernel: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
         pads: tuple[int, ...] | None = None, dilations: tuple[int, ...] | None = None, groups: int = 1,
         bias: bool = True, epilogue: Epilogue = NO_EPILOGUE) -> Problem:
    rank = len(kernel)
    op = Conv(strides or (1,) * rank, pads or (0,) * 2 * rank, dilations or (1,) * rank, groups, bias, epilogue)
    inputs = [TensorType(DType.F32, x), TensorType(DType.F32, (k, x[1] // groups, *kernel))]
    if bias:
        inputs.append(TensorType(DType.F32, (k,)))
    constant = [False] + [True] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        constant.append(False)
    return Problem.of(op, tuple(inputs), tuple(constant))


PROBLEMS = {
    "pointwise": conv((1, 8, 5, 5), 16, (1, 1)),
    "three_by_three_same": conv((1, 16, 7, 7), 32, (3, 3), pads=(1, 1, 1, 1), epilogue=Epilogue("relu")),
    "unaligned_channels": conv((2, 5, 6, 7), 37, (3, 3), pads=(1, 0, 1, 2)),
    "stride_two_odd_size": conv((1, 3, 9, 11), 24, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), bias=False),
    "dilated": conv((1, 4, 11, 9), 8, (3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
    "grouped": conv((1, 12, 6, 6), 40, (3, 3), groups=4, pads=(1, 1, 1, 1)),
    "one_pixel": conv((1, 64, 1, 1), 50, (1, 1)),
    "pad_wider_than_kernel": conv((1, 4, 3, 3), 8, (2, 2), pads=(3, 3, 3, 3)),
    "one_dimensional": conv((2, 6, 19), 20, (5,), pads=(2, 2), strides=(2,)),
    "three_dimensional": conv((1, 3, 4, 5, 6), 17, (2, 3, 2), pads=(1, 1, 0, 0, 1, 1)),
    "residual_before_relu": conv((1, 16, 5, 5), 33, (1, 1), epilogue=Epilogue("relu", (), "before")),
    "residual_after_silu": conv((1, 16, 5, 5), 16, (1, 1), epilogue=Epilogue("silu", (), "after")),
    "clipped": conv((1, 16, 5, 5), 48, (1, 1), epilogue=Epilogue("clip", (0.0, 6.0))),
}
CASES = cases(CONV_IGEMM_F32_CHL, PROBLEMS, runnable_targets())


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(CONV_IGEMM_F32_CHL, problem, signature, schedule, target)


def test_work_is_shared_by_threads() -> None:
    _, problem, signature, schedule, target = CASES[0]
    check(CONV_IGEMM_F32_CHL, problem, signature, schedule, target, threads=3)


def test_problem_text_round_trip() -> None:
    for problem in PROBLEMS.values():
        assert Problem.parse(problem.key()) == problem


@pytest.mark.parametrize(("problem", "reason"), [
    (Problem.of(Conv((1,), (0, 0), (1,)), (TensorType(DType.F64, (1, 2, 3)), TensorType(DType.F64, (2, 2, 1))), (False, True)),
     "found f64 input, needed f32"),
    (Problem.of(Conv((1,), (0, 0), (1,)), (TensorType(DType.F32, (1, 2, 3)), TensorType(DType.F32, (2, 2, 1))), (False, False)),
     "found weights that are computed at run time, needed constants"),
    (Problem.of(Conv((), (), ()), (TensorType(DType.F32, (1, 2)), TensorType(DType.F32, (3, 2))), (False, True)),
     "found f32[1,2] without spatial axes, needed 1 or more"),
    (Problem.of(Conv((1,), (1, 1), (1,)), (TensorType(DType.F32, (1, 2, 0)), TensorType(DType.F32, (2, 2, 1))), (False, True)),
     "found operands of shapes (1, 2, 0) and (2, 2, 1), needed at least one element"),
])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    from softneuro.codegen.target import host

    assert CONV_IGEMM_F32_CHL.reject(problem, host()) == reason
