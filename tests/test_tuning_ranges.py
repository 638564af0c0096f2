"""Ranges of sizes: what stands for them, how they are written, and plans that are tuned for them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_build import normal

import softneuro
from softneuro import reference
from softneuro.cli.arguments import ranged_shape
from softneuro.errors import InputError
from softneuro.importer.model import import_model
from softneuro.tuning.ranges import representatives, sizes_text
from softneuro.tuning.request import shape_sets
from tests.cli_harness import write_model

REPRESENTATIVES: dict[str, tuple[Mapping[str, Sequence[Any]], list[dict[str, tuple[int, ...]]]]] = {
    "no_range": ({"x": (1, 3, 6, 5)}, [{"x": (1, 3, 6, 5)}]),
    "nothing": ({}, [{}]),
    "scalar": ({"x": ()}, [{"x": ()}]),
    "batch": ({"x": ((1, 8), 3)}, [{"x": (1, 3)}, {"x": (3, 3)}, {"x": (8, 3)}]),
    "middle_keeps_the_power_of_two": ({"x": ((224, 640),)}, [{"x": (224,)}, {"x": (384,)}, {"x": (640,)}]),
    "middle_between_neighbours": ({"x": ((32, 64),)}, [{"x": (32,)}, {"x": (64,)}]),
    "neighbours": ({"x": ((1, 2),)}, [{"x": (1,)}, {"x": (2,)}]),
    "one_size": ({"x": ((7, 7), 2)}, [{"x": (7, 2)}]),
    "together": ({"x": ((1, 4), (10, 40)), "y": ((1, 4),)},
                 [{"x": (1, 10), "y": (1,)}, {"x": (2, 20), "y": (2,)}, {"x": (4, 40), "y": (4,)}]),
    "odd_ends": ({"x": ((3, 300),)}, [{"x": (3,)}, {"x": (30,)}, {"x": (300,)}]),
    "lists": ({"x": [[1, 9], 2]}, [{"x": (1, 2)}, {"x": (3, 2)}, {"x": (9, 2)}]),
}  # fmt: skip


@pytest.mark.parametrize(("shapes", "expected"), REPRESENTATIVES.values(), ids=REPRESENTATIVES)
def test_what_stands_for_a_range(shapes: Mapping[str, Sequence[Any]], expected: list[dict[str, tuple[int, ...]]]) -> None:
    assert list(representatives(shapes)) == expected


@pytest.mark.parametrize("size", [(8, 1), (0, 4), (-1, 4), (1,), (1, 2, 3), ()], ids=str)
def test_ranges_that_are_none(size: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        softneuro.tune(b"", shapes={"x": (1, size)})  # type: ignore[dict-item]
    assert str(caught.value) == f"input 'x': found the range {size}, needed two sizes of 1 or more, the least first"


@pytest.mark.parametrize(("text", "expected"), [
    ("x=1x3x224..640x224..640", ("x", (1, 3, (224, 640), (224, 640)))),
    ("x=1..8", ("x", ((1, 8),))),
    ("a=b=2..2x4", ("a=b", ((2, 2), 4))),
    ("x=1x2", ("x", (1, 2))),
    ("x=", ("x", ())),
])  # fmt: skip
def test_ranges_on_the_command_line(text: str, expected: tuple[str, tuple[Any, ...]]) -> None:
    assert ranged_shape(text) == expected
    assert f"{expected[0]}={sizes_text(expected[1])}" == text


@pytest.mark.parametrize("text", ["x=8..1", "x=0..4", "x=1..", "x=..4", "x=1..2..3", "x=1...4", "x=a..b", "x=-1x1..2",
                                  "1..2", "x=1..1048576x1..1048576x2", "x=1xx3"])  # fmt: skip
def test_texts_that_are_no_ranges(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        ranged_shape(text)


def test_sets_of_ranges() -> None:
    """The i-th sizes of an input belong to the i-th set, ranges or not."""
    assert shape_sets([("x", ((1, 8), 3)), ("x", (16, 3))]) == [{"x": ((1, 8), 3)}, {"x": (16, 3)}]


@pytest.mark.parametrize("batch", ["n", 1], ids=["free_batch", "declared_batch"])
def test_a_plan_for_a_range(tmp_path: Path, batch: int | str) -> None:
    path = write_model(tmp_path / "model.onnx", batch=batch)
    plan = softneuro.tune(path, threads=1, shapes=[{"x": ((1, 4), 3, 6, 5)}, {"x": (8, 3, 6, 5)}], effort=0)
    plan.save(tmp_path / "a.plan")
    made = softneuro.Plan.load(tmp_path / "a.plan").provenance
    sets = [shapes["x"][0] for shapes in (made.shapes, *made.further_shapes)]
    assert sets == [1, 2, 4, 8] and made.ranges == ({"x": "1..4x3x6x5"},)
    session, graph = softneuro.Session(plan), import_model(path, shapes={"x": (None, 3, 6, 5)})
    for size in (1, 3, 4, 9):
        feeds = {"x": normal(size, 3, 6, 5)}
        np.testing.assert_allclose(session.run(feeds)["y"], reference.run(graph, feeds)["y"], rtol=1e-4, atol=1e-4)


def test_no_ranges_are_noted_where_there_were_none(tmp_path: Path) -> None:
    made = softneuro.tune(write_model(tmp_path / "m.onnx"), threads=1, shapes={"x": (1, 3, 6, 5)}, effort=0).provenance
    assert made.ranges == () and made.further_shapes == ()
