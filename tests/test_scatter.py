"""ScatterElements and ScatterND: all reductions, duplicates, and indices outside of an axis."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import execute, runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import InputError
from softneuro.ops.base import Op
from softneuro.ops.scatter import REDUCTIONS, ScatterElements, ScatterND
from softneuro.routines.routine import Routine
from softneuro.routines.scatter import SCATTER_ELEMENTS_LINES_ANY, SCATTER_ND_SLICES_ANY
from softneuro.types import Array

ROUTINES: dict[type[Op], Routine] = {ScatterElements: SCATTER_ELEMENTS_LINES_ANY, ScatterND: SCATTER_ND_SLICES_ANY}
Case = tuple[Op, tuple[Array, Array, Array]]


def elements(axis: int, shape: tuple[int, ...], indices: tuple[int, ...], reduction: str = "none", dtype: str = "f4",
             index: str = "i8") -> Case:
    rng, size = np.random.default_rng(2), shape[axis]
    return ScatterElements(axis, reduction), (
        rng.integers(0, 100, shape).astype(dtype), rng.integers(-size, size, indices).astype(index),
        rng.integers(0, 100, indices).astype(dtype))


def tuples(shape: tuple[int, ...], indices: tuple[int, ...], reduction: str = "none", dtype: str = "f4",
           index: str = "i8") -> Case:
    rng, sizes = np.random.default_rng(2), np.array(shape[: indices[-1]])
    return ScatterND(reduction), (
        rng.integers(0, 100, shape).astype(dtype), rng.integers(-sizes, sizes, indices).astype(index),
        rng.integers(0, 100, (*indices[:-1], *shape[indices[-1] :])).astype(dtype))


CASES: dict[str, Case] = {
    "elements_last_axis": elements(-1, (3, 4, 9), (3, 4, 5)),
    "elements_first_axis_with_duplicates": elements(0, (6, 150), (9, 130), "none", "f2", "i4"),
    "elements_middle_axis_of_fewer_updates": elements(1, (3, 5, 6), (2, 8, 4), "none", "u1"),
    "elements_of_a_vector": elements(0, (50,), (33,), "none", "i8"),
    "elements_none": elements(1, (4, 3), (4, 0)),
    "tuples_of_elements_with_duplicates": tuples((4, 5), (30, 2)),
    "tuples_of_rows": tuples((4, 5, 37), (2, 3, 1), "none", "f2", "i4"),
    "tuples_of_all": tuples((5, 2), (1, 2), "none", "?"),
    "tuples_none": tuples((5, 2), (0, 1)),
    "tuple_without_axes": tuples((5, 2), (1,), "add"),
    "elements_added": elements(0, (4, 3), (7, 3), "add"),
    "tuples_multiplied": tuples((4, 3), (3, 1), "mul", "i4"),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    op, feeds = CASES[name]
    assert_exact(ROUTINES[type(op)], op, feeds, target, threads)


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reduces_duplicates(reduction: str, dtype: str) -> None:
    for op, feeds in (elements(0, (4, 3), (7, 3), reduction, dtype), tuples((4, 3), (7, 1), reduction, dtype)):
        assert_exact(ROUTINES[type(op)], op, feeds, host(), 2)


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_nan_of_either_wins(reduction: str) -> None:
    x = np.array([np.nan, 1, 2], np.float32)
    updates = np.array([5, np.nan, 3, 0], np.float32)
    with np.errstate(invalid="ignore"):
        assert_exact(SCATTER_ELEMENTS_LINES_ANY, ScatterElements(0, reduction), (x, np.array([0, 1, 2, 2]), updates), host())


@pytest.mark.parametrize(("op", "shape"), [(ScatterElements(0), (4, 3)), (ScatterND(), (4, 1))])
def test_index_outside_is_refused_by_the_op_and_dropped_by_the_kernel(op: Op, shape: tuple[int, int]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    indices = np.array([4, -5, 2**62, -(2**62)])[:, None] * np.ones(shape[1], np.int64)
    feeds = (x, indices, np.full((4, 3), -1, np.float32))
    with pytest.raises(InputError, match="found index 4, needed one from -4 to 3"):
        op.reference(feeds)
    routine, problem = ROUTINES[type(op)], problem_of(op, *feeds)
    (got,) = execute(routine, problem, routine.signatures(problem)[0], {}, host(), feeds)
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize(("op", "shapes", "message"), [
    (ScatterElements(0), ((3,), (2, 2), (2, 2)), "needed the same rank and no larger sizes except on axis 0"),
    (ScatterElements(0), ((3,), (2,), (3,)), r"found updates f32\[3\], needed f32\[2\]"),
    (ScatterND(), ((3,), (2, 2), (2,)), r"found 2 coordinates in a tuple, needed 1 to 1 for f32\[3\]"),
    (ScatterND(), ((3, 4), (2, 1), (2, 3)), r"found updates f32\[2,3\], needed f32\[2,4\]"),
])  # fmt: skip
def test_refusals_say_found_and_needed(op: Op, shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    x, indices, updates = (np.zeros(s, t) for s, t in zip(shapes, ("f4", "i8", "f4"), strict=True))
    with pytest.raises(InputError, match=message):
        problem_of(op, x, indices, updates)
    with pytest.raises(InputError, match="found f32 indices, needed i32 or i64"):
        problem_of(op, x, indices.astype(np.float32), updates)


def test_halves_with_a_reduction_are_left_to_the_host() -> None:
    op, feeds = elements(0, (4,), (2,), "add", "f2")
    reason = SCATTER_ELEMENTS_LINES_ANY.reject(problem_of(op, *feeds), host())
    assert reason is not None and reason.startswith("found f16 with reduction add, needed one of f32")
