"""The depthwise convolution routines against the numpy reference, on problems named by the edge they hit."""

from __future__ import annotations

import pytest
from oracle import cases, check, runnable_targets

from softneuro.codegen.target import host
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.problem import Problem
from softneuro.routines.conv_depthwise_chf import CONV_DEPTHWISE_F32_CHF
from softneuro.routines.conv_depthwise_chl import CONV_DEPTHWISE_F32_CHL
from softneuro.types import DType, TensorType

ROUTINES = (CONV_DEPTHWISE_F32_CHL, CONV_DEPTHWISE_F32_CHF)


def depthwise(x: tuple[int, ...], kernel: tuple[int, ...], *, strides: tuple[int, ...] = (1, 1),
              pads: tuple[int, ...] = (0, 0, 0, 0), dilations: tuple[int, ...] = (1, 1), bias: bool = True,
              epilogue: Epilogue = NO_EPILOGUE, multiplier: int = 1, dtype: DType = DType.F32,
              constant: bool = True, threads: int = 1) -> Problem:
    channels = x[1]
    op = Conv(strides, pads, dilations, channels, bias, epilogue)
    inputs = [TensorType(dtype, x), TensorType(dtype, (channels * multiplier, 1, *kernel))]
    if bias:
        inputs.append(TensorType(dtype, (channels * multiplier,)))
    known = [False] + [constant] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        known.append(False)
    return Problem.of(op, tuple(inputs), tuple(known), threads)


SAME = (1, 1, 1, 1)
PROBLEMS = {
    "three_by_three_same": depthwise((1, 16, 9, 10), (3, 3), pads=SAME, epilogue=Epilogue("relu")),
    "unaligned_channels": depthwise((2, 21, 7, 7), (3, 3), pads=SAME),
    "fewer_channels_than_lanes": depthwise((1, 3, 6, 5), (3, 3), pads=SAME),
    "stride_two_asymmetric_pads": depthwise((1, 24, 9, 12), (3, 3), strides=(2, 2), pads=(0, 0, 1, 1), bias=False),
    "stride_three": depthwise((1, 8, 11, 20), (3, 3), strides=(3, 3), pads=SAME),
    "five_by_five": depthwise((1, 20, 8, 9), (5, 5), pads=(2, 2, 2, 2)),
    "seven_by_seven_stride_two": depthwise((1, 16, 13, 15), (7, 7), strides=(2, 2), pads=(3, 3, 3, 3)),
    "one_row_kernel": depthwise((1, 16, 4, 19), (1, 5), pads=(0, 2, 0, 2)),
    "one_by_one_kernel": depthwise((1, 16, 5, 5), (1, 1)),
    "dilated": depthwise((1, 16, 11, 13), (3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
    "pad_wider_than_kernel": depthwise((1, 16, 3, 3), (2, 2), pads=(3, 3, 3, 3)),
    "image_smaller_than_kernel": depthwise((1, 16, 2, 2), (5, 5), pads=(2, 2, 2, 2)),
    "one_pixel": depthwise((3, 17, 1, 1), (3, 3), pads=SAME),
    "wider_than_a_vector": depthwise((1, 3, 5, 37), (3, 3), pads=SAME, epilogue=Epilogue("clip", (0.0, 6.0))),
    "wide_stride_two": depthwise((1, 2, 6, 70), (3, 3), strides=(2, 2), pads=SAME, epilogue=Epilogue("relu")),
    "residual_before_relu": depthwise((1, 18, 5, 5), (3, 3), pads=SAME, epilogue=Epilogue("relu", (), "before")),
    "residual_after_silu": depthwise((1, 18, 5, 5), (3, 3), pads=SAME, epilogue=Epilogue("silu", (), "after")),
}
EVERY_SCHEDULE = ("three_by_three_same", "unaligned_channels", "five_by_five", "wide_stride_two")


def wanted() -> list[tuple]:
    """Each case is a kernel to compile: all schedules of some problems on the host, else the default ones."""
    found = []
    for routine in ROUTINES:
        for name, target in runnable_targets().items():
            for problem in PROBLEMS:
                listed = cases(routine, {problem: PROBLEMS[problem]}, {name: target})
                some = listed if target == host() and problem in EVERY_SCHEDULE else listed[:1]
                found += [(f"{routine.name}-{case[0]}", routine, *case[1:]) for case in some]
    return found


CASES = wanted()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, routine, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
@pytest.mark.parametrize("threads", [2, 5])
def test_work_is_shared_by_threads(routine, threads: int) -> None:
    problem = depthwise((2, 37, 4, 5), (3, 3), pads=SAME, threads=4)
    schedule = routine.schedules(problem, host())[0]
    check(routine, problem, routine.signatures(problem)[0], schedule, host(), threads=threads)


REFUSALS = {
    "found f64 input, needed f32": depthwise((1, 4, 5, 5), (3, 3), dtype=DType.F64),
    "found 1 spatial axes, needed 2": depthwise((1, 4, 5), (3,), strides=(1,), pads=(0, 0), dilations=(1,)),
    "found 4 groups, 8 filters and 4 channels, needed as many of each": depthwise(
        (1, 4, 5, 5), (3, 3), multiplier=2),
    "found weights that are computed at run time, needed constants": depthwise((1, 4, 5, 5), (3, 3), constant=False),
    "found a kernel of 81 taps, needed at most 49": depthwise((1, 4, 9, 9), (9, 9)),
}


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
@pytest.mark.parametrize("reason", REFUSALS)
def test_refusals_say_found_and_needed(routine, reason: str) -> None:
    assert routine.reject(REFUSALS[reason], host()) == reason
