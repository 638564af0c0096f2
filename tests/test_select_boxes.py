"""Non-maximum suppression: ties, absent thresholds, degenerate boxes, and the trim of its result."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import runnable_targets

from softneuro.codegen.target import Target
from softneuro.errors import DynamicShape, InputError
from softneuro.ops.base import Bound
from softneuro.ops.suppression import SelectBoxes
from softneuro.ops.trim import Trim
from softneuro.routines.select_boxes import SELECT_BOXES_HEAP_F32
from softneuro.types import Array, DType, TensorType

Feeds = tuple[Array | None, ...]


def data(batch: int, classes: int, n: int, most: int | None, overlap: float | None = 0.5, score: float | None = 0.2,
         levels: int = 1000) -> Feeds:
    """Boxes on a grid of few places, so that many overlap and some are equal."""
    rng = np.random.default_rng(batch + classes + n)
    corners = rng.integers(0, 12, (batch, n, 4)) / 8
    scores = rng.integers(0, levels, (batch, classes, n)) / levels
    return (
        corners.astype(np.float32), scores.astype(np.float32), None if most is None else np.array([most]),
        None if overlap is None else np.array([overlap], np.float32), None if score is None else np.array(score, np.float32))


CASES: dict[str, Feeds] = {
    "few": data(1, 1, 6, 3),
    "many": data(2, 5, 300, 20),
    "all_selected": data(1, 2, 40, 1000, 1.0, -1.0),
    "ties": data(1, 3, 100, 100, 0.3, 0.0, levels=3),
    "no_number": data(1, 2, 10, None),
    "number_of_zero": data(1, 2, 10, 0),
    "negative_number": data(1, 2, 10, -4),
    "no_thresholds": data(1, 2, 50, 10, None, None),
    "nothing_above_the_score": data(1, 2, 10, 5, 0.5, 2.0),
    "no_boxes": data(1, 2, 0, 5),
    "no_classes": data(1, 0, 4, 5),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, centered: bool, threads: int) -> None:
    feeds = CASES[name]
    for most in (None, 7):  # a number that only the run knows, and one that bounds the output
        assert_exact(SELECT_BOXES_HEAP_F32, SelectBoxes(centered, most), feeds, target, threads)


@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
def test_nan_is_never_selected_and_never_suppresses(target: Target) -> None:
    boxes, scores, *rest = data(1, 1, 30, 30, 0.4, None)
    assert boxes is not None and scores is not None
    scores[0, 0, ::3] = np.nan
    boxes[0, 1, :] = np.nan
    assert_exact(SELECT_BOXES_HEAP_F32, SelectBoxes(), (boxes, scores, *rest), target)


def test_number_of_boxes_bounds_the_output() -> None:
    feeds = CASES["many"]
    types = tuple(None if v is None else TensorType.of(v) for v in feeds)
    bound = SelectBoxes().bind(types, feeds)
    assert bound == Bound(SelectBoxes(most=20), (0, 1, 2, 3, 4))
    assert bound.op.infer(types)[0] == TensorType(DType.I64, (2 * 5 * 20, 3))
    assert SelectBoxes().infer(types)[0] == TensorType(DType.I64, (2 * 5 * 300, 3))


def test_trim_takes_the_first_rows() -> None:
    rows = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(Trim().reference((rows, np.array([2])))[0], rows[:2])
    with pytest.raises(DynamicShape, match="the number of rows depends on the data of the run"):
        Trim().infer((TensorType.of(rows), TensorType(DType.I64, (1,))))


def test_refusals_say_found_and_needed() -> None:
    boxes, scores, most, *_ = CASES["few"]
    assert boxes is not None and scores is not None
    with pytest.raises(InputError, match=r"needed \(batch, n, 4\) and \(batch, classes, n\)"):
        problem_of(SelectBoxes(), boxes, scores[0], most)
    with pytest.raises(InputError, match="needed floats of one type"):
        problem_of(SelectBoxes(), boxes, scores.astype(np.float64), most)
    with pytest.raises(InputError, match=r"found the number of boxes as i64\[2\], needed one element of i64"):
        problem_of(SelectBoxes(), boxes, scores, np.array([1, 2]))
