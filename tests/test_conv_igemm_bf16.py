"""conv.igemm.bf16.chl against the numpy reference on operands rounded to bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Case, as_kept, as_multiplied, cases, check, execute, random_inputs, runnable_targets
from test_conv_igemm import PROBLEMS as FLOAT_PROBLEMS
from test_conv_igemm import conv

from softneuro.codegen.compile import assembly
from softneuro.codegen.target import host
from softneuro.ops.epilogue import Epilogue
from softneuro.routines.conv_igemm_bf16 import CONV_IGEMM_BF16_CHL
from softneuro.types import DType

PROBLEMS = FLOAT_PROBLEMS | {
    "one_channel": conv((1, 1, 5, 5), 20, (3, 3), pads=(1, 1, 1, 1)),
    "one_channel_in_each_group": conv((1, 4, 6, 6), 40, (3, 3), groups=4, pads=(1, 1, 1, 1)),
    "odd_channels_in_groups": conv((2, 15, 5, 5), 18, (2, 2), groups=3, epilogue=Epilogue("relu", (), "before")),
}
EVERY_SCHEDULE = ("unaligned_channels",)
TARGETS = runnable_targets()


def _selected() -> list[Case]:
    """Each case is a kernel to compile: all signatures, but most problems with the first schedule alone."""
    found = []
    for name, problem in PROBLEMS.items():
        for target_name, target in TARGETS.items():
            listed = cases(CONV_IGEMM_BF16_CHL, {name: problem}, {target_name: target})
            first = CONV_IGEMM_BF16_CHL.schedules(problem, target)[0]
            found += [c for c in listed if name in EVERY_SCHEDULE or c[3] == first]
    return found


CASES = _selected()


def test_every_problem_is_taken() -> None:
    assert {case[0].split("-")[0] for case in CASES} == set(PROBLEMS)
    assert {str(case[2].outputs[0]) for case in CASES} == {"bf16:chl", "f32:chl"}


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: Case) -> None:
    _, problem, signature, schedule, target = case
    check(CONV_IGEMM_BF16_CHL, problem, signature, schedule, target)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("name", ["unaligned_channels", "odd_channels_in_groups"])
def test_work_is_shared_by_threads(name: str, threads: int) -> None:
    problem = PROBLEMS[name]
    for signature in CONV_IGEMM_BF16_CHL.signatures(problem):
        check(CONV_IGEMM_BF16_CHL, problem, signature, CONV_IGEMM_BF16_CHL.schedules(problem, host())[0], host(), threads=threads)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_half_a_pair_leaves_its_neighbours_alone(target: object) -> None:
    """The first channel of the next pixel lies where the second of the last pair would be."""
    problem = conv((1, 5, 1, 4), 16, (1, 1))
    _, _, signature, schedule, _ = cases(CONV_IGEMM_BF16_CHL, {"": problem}, {"": target})[0]  # type: ignore[dict-item]
    values = as_kept(problem, signature, random_inputs(problem, np.random.default_rng(0), exact=True))
    assert values[0] is not None
    values[0][0, :, 0, 2] = np.nan
    (found,) = execute(CONV_IGEMM_BF16_CHL, problem, signature, schedule, target, values)  # type: ignore[arg-type]
    assert np.isnan(found[0, :, 0, 2]).all() and np.isfinite(found[0, :, 0, [0, 1, 3]]).all()


def test_weights_are_rounded_to_even() -> None:
    problem = conv((1, 2, 1, 1), 1, (1, 1), bias=False)
    signature = CONV_IGEMM_BF16_CHL.signatures(problem)[1]
    halfway = np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32).reshape(1, 2, 1, 1)
    values = [np.ones((1, 2, 1, 1), np.float32), halfway]
    schedule = CONV_IGEMM_BF16_CHL.schedules(problem, host())[0]
    (found,) = execute(CONV_IGEMM_BF16_CHL, problem, signature, schedule, host(), values)
    assert found.item() == 1 + (1 + 2**-6) == np.sum(as_multiplied(CONV_IGEMM_BF16_CHL, values)[1])  # type: ignore[arg-type]


def test_pairs_are_multiplied_by_one_instruction_where_there_is_one() -> None:
    _, problem, signature, schedule, target = next(c for c in CASES if c[4] == host())
    (launch,) = CONV_IGEMM_BF16_CHL.build(problem, signature, schedule, target).launches
    if "+avx512bf16" in target.features.split(","):
        assert "vdpbf16ps" in assembly(launch.kernel, target)
    assert CONV_IGEMM_BF16_CHL.computes is DType.BF16
