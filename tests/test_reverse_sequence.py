"""Sequences turned round: lengths of nothing, one step and all steps, both orders of the axes, every element size."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import runnable_targets

from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.ops.reverse_sequence import ReverseSequence
from softneuro.routines.reverse_sequence import REVERSE_SEQUENCE_STEPS_ANY
from softneuro.types import Array

TARGETS = runnable_targets()
CASES: dict[str, tuple[Array, Array]] = {
    "matrix": (np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([0, 1, 4])),
    "one_step": (np.arange(6, dtype=np.int32).reshape(3, 1, 2), np.array([1, 0, 1])),
    "bytes": (np.arange(60, dtype=np.uint8).reshape(2, 10, 3), np.array([10, 7])),
    "bools": (np.arange(14).reshape(2, 7) % 3 == 0, np.array([5, 2])),
    "long_steps": (np.random.default_rng(0).standard_normal((4, 9, 5, 33)), np.array([9, 3, 8, 2])),
    "no_steps": (np.zeros((2, 0, 3), np.float32), np.array([0, 0])),
    "no_sequences": (np.zeros((0, 4), np.float32), np.zeros(0, np.int64)),
    "empty_steps": (np.zeros((2, 3, 0), np.float32), np.array([3, 1])),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, time_first: bool, threads: int) -> None:
    x, lengths = CASES[name]
    x = np.ascontiguousarray(x.swapaxes(0, 1)) if time_first else x
    assert_exact(REVERSE_SEQUENCE_STEPS_ANY, ReverseSequence(time_first), (x, lengths), target, threads)


def test_reference() -> None:
    x = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(ReverseSequence().reference((x, np.array([3, 2])))[0], [[2, 1, 0, 3], [5, 4, 6, 7]])
    (turned,) = ReverseSequence(True).reference((x.T.copy(), np.array([3, 2])))
    np.testing.assert_array_equal(turned.T, [[2, 1, 0, 3], [5, 4, 6, 7]])


def test_refusals_say_found_and_needed() -> None:
    x, lengths = CASES["matrix"]
    with pytest.raises(InputError, match=r"found f32\[4\], needed an axis of sequences and one of steps"):
        problem_of(ReverseSequence(), x[0], lengths)
    with pytest.raises(InputError, match=r"found the lengths i64\[2\], needed i64\[3\]"):
        problem_of(ReverseSequence(), x, lengths[:2])
    with pytest.raises(InputError, match="found the length 5 of a sequence, needed one from 0 to 4"):
        ReverseSequence().reference((x, np.array([0, 5, 1])))
