"""ConvTranspose: its numpy reference against known results, its routine against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.problem import Problem
from softneuro.routines.conv_transpose_direct_chf import CONV_TRANSPOSE_DIRECT_F32_CHF
from softneuro.routines.conv_transpose_gemm import CONV_TRANSPOSE_GEMM_F32_CHL
from softneuro.types import DType, TensorType


def transposed(x: tuple[int, ...], k: int, kernel: tuple[int, ...], *, strides: tuple[int, ...] | None = None,
               pads: tuple[int, ...] | None = None, output_padding: tuple[int, ...] | None = None,
               dilations: tuple[int, ...] | None = None, groups: int = 1, bias: bool = True,
               epilogue: Epilogue = NO_EPILOGUE, constant: bool = True) -> Problem:
    rank = len(kernel)
    op = ConvTranspose(strides or (1,) * rank, pads or (0,) * 2 * rank, output_padding or (0,) * rank,
                       dilations or (1,) * rank, groups, bias, epilogue)
    inputs = [TensorType(DType.F32, x), TensorType(DType.F32, (x[1], k // groups, *kernel))]
    if bias:
        inputs.append(TensorType(DType.F32, (k,)))
    known = [False] + [constant] * (len(inputs) - 1)
    if epilogue.residual:
        inputs.append(op.infer(inputs)[0])
        known.append(False)
    return Problem.of(op, tuple(inputs), tuple(known))


PROBLEMS = {
    "two_by_two_stride_two": transposed((1, 24, 6, 7), 24, (2, 2), strides=(2, 2), epilogue=Epilogue("relu")),
    "three_by_three_stride_two_output_padding": transposed(
        (1, 8, 5, 6), 20, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1)),
    "windows_apart_in_columns_only": transposed((1, 8, 5, 6), 9, (3, 3), strides=(2, 3), pads=(1, 0, 1, 0),
                                                epilogue=Epilogue("relu", (), "before")),
    "four_by_four_stride_two": transposed((2, 5, 4, 6), 33, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1)),
    "stride_one": transposed((1, 16, 5, 5), 16, (3, 3), pads=(1, 1, 1, 1)),
    "one_filter": transposed((1, 24, 9, 9), 1, (2, 2), strides=(2, 2), epilogue=Epilogue("sigmoid")),
    "stride_larger_than_kernel": transposed((1, 4, 3, 4), 6, (2, 1), strides=(3, 4), output_padding=(1, 2)),
    "dilated_with_empty_phases": transposed((1, 4, 5, 4), 8, (3, 3), strides=(2, 2), dilations=(2, 2)),
    "dilated_coprime_to_stride": transposed((1, 4, 5, 4), 8, (3, 2), strides=(2, 3), dilations=(3, 2),
                                            pads=(2, 1, 0, 3)),
    "grouped": transposed((1, 12, 4, 5), 20, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), groups=4),
    "depthwise": transposed((1, 6, 4, 5), 6, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1), groups=6, bias=False),
    "one_pixel": transposed((1, 50, 1, 1), 17, (4, 4), bias=False),
    "one_dimensional": transposed((2, 6, 19), 20, (4,), strides=(2,), pads=(1, 1)),
    "three_dimensional": transposed((1, 3, 2, 3, 4), 17, (2, 3, 2), strides=(2, 2, 1), pads=(0, 1, 0, 0, 1, 1)),
    "residual_after_relu": transposed((1, 4, 3, 3), 18, (2, 2), strides=(2, 2),
                                      epilogue=Epilogue("relu", (), "after")),
    "non_overlapping_rows_longer_than_a_vector": transposed((2, 5, 3, 37), 3, (2, 2), strides=(2, 2),
                                                            epilogue=Epilogue("sigmoid")),
    "non_overlapping_three_by_four": transposed((1, 6, 4, 19), 5, (3, 4), strides=(3, 4)),
    "more_cut_off_than_the_kernel_adds": transposed((1, 3, 6, 6), 4, (1, 1), strides=(2, 2), pads=(2, 1, 3, 2)),
    "output_of_one_column": transposed((1, 3, 3, 2), 4, (2, 2), strides=(2, 3), pads=(0, 2, 0, 2)),
}
ROUTINES = (CONV_TRANSPOSE_GEMM_F32_CHL, CONV_TRANSPOSE_DIRECT_F32_CHF)
CASES = [(f"{routine.name}-{case[0]}", routine, *case[1:])
         for routine in ROUTINES for name, target in runnable_targets().items() for problem in PROBLEMS
         for index, case in enumerate(cases(routine, {problem: PROBLEMS[problem]}, {name: target}))
         if index == 0 or target == host()]  # every schedule is compiled: one is enough for other targets


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, routine, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
def test_work_is_shared_by_threads(routine) -> None:
    problem = PROBLEMS["two_by_two_stride_two"]
    schedule = routine.schedules(problem, host())[0]
    check(routine, problem, routine.signatures(problem)[0], schedule, host(), threads=3)


def test_problem_text_round_trip() -> None:
    for problem in PROBLEMS.values():
        assert Problem.parse(problem.key()) == problem


def test_an_empty_output_needs_no_launch() -> None:
    problem = transposed((1, 3, 2, 2), 4, (2, 2), strides=(2, 2), pads=(2, 0, 2, 0))
    assert problem.outputs[0].shape == (1, 4, 0, 4)
    schedule = CONV_TRANSPOSE_GEMM_F32_CHL.schedules(problem, host())[0]
    signature = CONV_TRANSPOSE_GEMM_F32_CHL.signatures(problem)[0]
    assert CONV_TRANSPOSE_GEMM_F32_CHL.build(problem, signature, schedule, host()).launches == ()


@pytest.mark.parametrize(("strides", "pads", "dilations", "kernel", "groups"), [
    ((2, 2), (1, 1, 1, 1), (1, 1), (3, 3), 1),
    ((1, 3), (2, 0, 1, 2), (2, 1), (3, 4), 2),
])
def test_is_the_adjoint_of_conv(strides, pads, dilations, kernel, groups) -> None:
    rng = np.random.default_rng(0)
    image, filters = rng.standard_normal((2, 4, 11, 13)), rng.standard_normal((6, 4 // groups, *kernel))
    (product,) = Conv(strides, pads, dilations, groups).reference([image, filters])
    cotangent = rng.standard_normal(product.shape)
    bare = ConvTranspose(strides, pads, (0, 0), dilations, groups)
    (type_,) = bare.infer([TensorType.of(cotangent), TensorType.of(filters)])
    short = tuple(full - got for full, got in zip(image.shape[2:], type_.shape[2:], strict=True))
    (back,) = ConvTranspose(strides, pads, short, dilations, groups).reference([cotangent, filters])
    assert np.isclose(np.vdot(product, cotangent), np.vdot(image, back))


def test_reference_of_one_element() -> None:
    weights = np.arange(4.0).reshape(1, 1, 2, 2)
    (y,) = ConvTranspose((2, 2), (0, 0, 0, 0), (1, 0), (1, 1), bias=True).reference(
        [np.full((1, 1, 1, 1), 3.0), weights, np.array([1.0])])
    np.testing.assert_array_equal(y[0, 0], [[1, 4], [7, 10], [1, 1]])


@pytest.mark.parametrize(("x", "w", "pads", "message"), [
    ((1, 3, 4), (3, 2, 2, 2), (0, 0, 0, 0), "needed rank 4 for both"),
    ((1, 3, 4, 4), (4, 2, 2, 2), (0, 0, 0, 0), "input has 3 channels in 1 groups, weights are for 4"),
    ((1, 3, 1, 1), (3, 2, 2, 2), (0, 2, 0, 1), "axis 3 has -1 elements after cutting off the pads"),
])
def test_shapes_that_do_not_fit(x, w, pads, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConvTranspose((1, 1), pads, (0, 0), (1, 1)).infer([TensorType(DType.F32, x), TensorType(DType.F32, w)])


def test_refusals_say_found_and_needed() -> None:
    computed = transposed((1, 2, 3, 3), 2, (2, 2), constant=False)
    for routine in ROUTINES:
        assert routine.reject(computed, host()) == "found weights that are computed at run time, needed constants"


@pytest.mark.parametrize(("name", "reason"), [
    ("four_by_four_stride_two", "found windows of (4, 4) at strides of (2, 2), needed them side by side"),
    ("one_dimensional", "found 1 spatial axes, needed 2"),
    ("grouped", "found 4 groups, needed 1"),
    ("residual_after_relu", "found a residual, needed none"),
])
def test_direct_refuses(name: str, reason: str) -> None:
    assert CONV_TRANSPOSE_DIRECT_F32_CHF.reject(PROBLEMS[name], host()) == reason
