"""GatherElements and GatherND: the routines against the ops, and indices outside of an axis."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import execute, runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import InputError
from softneuro.ops.base import Op
from softneuro.ops.gather_elements import GatherElements
from softneuro.ops.gather_nd import GatherND
from softneuro.routines.gather_elements import GATHER_ELEMENTS_RUNS_ANY
from softneuro.routines.gather_nd import GATHER_ND_SLICES_ANY
from softneuro.routines.routine import Routine
from softneuro.types import Array

RNG = np.random.default_rng(0)
ROUTINES: dict[type[Op], Routine] = {GatherElements: GATHER_ELEMENTS_RUNS_ANY, GatherND: GATHER_ND_SLICES_ANY}


def elements(axis: int, shape: tuple[int, ...], indices: tuple[int, ...], dtype: str = "f4",
             index: str = "i8") -> tuple[Op, Array, Array]:
    size = shape[axis]
    return GatherElements(axis), RNG.integers(0, 100, shape).astype(dtype), RNG.integers(-size, size, indices).astype(index)


def tuples(shape: tuple[int, ...], indices: tuple[int, ...], batch: int = 0, dtype: str = "f4",
           index: str = "i8") -> tuple[Op, Array, Array]:
    sizes = np.array(shape[batch : batch + indices[-1]])
    picked = RNG.integers(-sizes, sizes, indices).astype(index)
    return GatherND(batch), RNG.integers(0, 100, shape).astype(dtype), picked


CASES: dict[str, tuple[Op, Array, Array]] = {
    "elements_last_axis": elements(-1, (3, 4, 5), (3, 4, 7)),
    "elements_first_axis": elements(0, (6, 4), (9, 4), "f2", "i4"),
    "elements_middle_axis_of_smaller_indices": elements(1, (3, 5, 6), (2, 8, 4), "u1"),
    "elements_of_a_vector": elements(0, (50,), (33,), "i8"),
    "elements_of_size_one": elements(1, (4, 1), (4, 3), "?"),
    "elements_none": elements(1, (4, 3), (4, 0)),
    "tuples_of_elements": tuples((4, 5), (7, 2)),
    "tuples_of_rows": tuples((4, 5, 37), (2, 3, 1), 0, "f2", "i4"),
    "tuples_in_batches": tuples((2, 4, 5, 3), (2, 6, 2), 1, "i8"),
    "tuples_in_two_batch_axes": tuples((2, 3, 5, 3), (2, 3, 1), 2, "u1"),
    "tuples_one": tuples((6, 3), (1,)),
    "tuples_none": tuples((6, 3), (0, 2)),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    op, x, indices = CASES[name]
    assert_exact(ROUTINES[type(op)], op, (x, indices), target, threads)


@pytest.mark.parametrize(("op", "shape"), [(GatherElements(0), (4, 3)), (GatherND(), (4, 1))])
def test_index_outside_is_refused_by_the_op_and_clamped_by_the_kernel(op: Op, shape: tuple[int, int]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    indices = np.array([4, -5, 2**62, -(2**62)])[:, None] * np.ones(shape[1], np.int64)
    with pytest.raises(InputError, match="found index 4, needed one from -4 to 3"):
        op.reference((x, indices))
    routine, problem = ROUTINES[type(op)], problem_of(op, x, indices)
    (got,) = execute(routine, problem, routine.signatures(problem)[0], {}, host(), (x, indices))
    np.testing.assert_array_equal(got, x[[3, 0, 3, 0]])


@pytest.mark.parametrize(("op", "shapes", "message"), [
    (GatherElements(0), ((3,), (2, 2)), "needed the same rank and no larger sizes except on axis 0"),
    (GatherND(), ((3,), (2, 2)), r"found 2 coordinates in a tuple, needed 1 to 1 for f32\[3\]"),
    (GatherND(1), ((3, 2), (2, 1)), "needed 1 equal axes in front and one more in both"),
])  # fmt: skip
def test_refusals_say_found_and_needed(op: Op, shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem_of(op, np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.int64))
    with pytest.raises(InputError, match="found f32 indices, needed i32 or i64"):
        problem_of(op, np.zeros((3, 3), np.float32), np.zeros((3, 1), np.float32))
