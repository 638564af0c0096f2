"""Gather: the op against onnx.reference's meaning, the routine against the op."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import execute, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.gather import Gather
from softneuro.problem import Problem
from softneuro.routines.gather import GATHER_ROWS_ANY
from softneuro.types import DType, TensorType

F32, I64, I32 = DType.F32, DType.I64, DType.I32


def gather(axis: int, shape: tuple[int, ...], indices: tuple[int, ...], dtype: DType = F32,
           index: DType = I64) -> Problem:
    return Problem.of(Gather(axis), (TensorType(dtype, shape), TensorType(index, indices)), (False, False))


PROBLEMS = {
    "embedding": gather(0, (20, 48), (2, 7)),
    "embedding_of_halves": gather(0, (20, 37), (5,), DType.F16, I32),
    "inner_axis": gather(-1, (3, 4, 9), (2, 3), DType.U8),
    "middle_axis": gather(1, (3, 8, 5), (4,), I64, I32),
    "scalar_index": gather(0, (6,), (), I64),
    "scalar_index_of_rows": gather(1, (2, 6, 5), ()),
    "no_indices": gather(0, (6, 4), (0,)),
    "empty_rows": gather(0, (6, 0), (3,)),
}


def values(problem: Problem) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    x, indices = problem.input(0), problem.input(1)
    size = x.shape[problem.op.axis]
    return [rng.integers(-100, 100, x.shape).astype(x.dtype.numpy),
            rng.integers(-size, size, indices.shape).astype(indices.dtype.numpy)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", PROBLEMS)
def test_equals_reference(name: str, target: object, threads: int) -> None:
    problem = PROBLEMS[name]
    assert GATHER_ROWS_ANY.reject(problem, target) is None
    feeds = values(problem)
    (want,) = problem.op.reference(feeds)
    assert TensorType.of(want) == problem.outputs[0]
    (signature,) = GATHER_ROWS_ANY.signatures(problem)
    (got,) = execute(GATHER_ROWS_ANY, problem, signature, {}, target, feeds, threads)
    np.testing.assert_array_equal(got, want)


def test_index_outside_is_refused_by_the_op_and_clamped_by_the_kernel() -> None:
    problem = PROBLEMS["embedding"]
    feeds = values(problem)
    feeds[1][0, :4] = [20, -21, 2**62, -(2**62)]
    with pytest.raises(InputError, match="found index 20, needed one from -20 to 19"):
        problem.op.reference(feeds)
    (signature,) = GATHER_ROWS_ANY.signatures(problem)
    (got,) = execute(GATHER_ROWS_ANY, problem, signature, {}, host(), feeds)
    np.testing.assert_array_equal(got[0, :4], feeds[0][[19, 0, 19, 0]])


def test_refusals_say_found_and_needed() -> None:
    with pytest.raises(InputError, match="found f32 indices, needed i32 or i64"):
        gather(0, (3,), (2,), index=F32)
    reason = GATHER_ROWS_ANY.reject(gather(0, (0, 3), (2,)), host())
    assert reason == "found f32[0,3], needed rows to pick from"
