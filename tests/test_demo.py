"""The model that ships with the package, the command that shows it, and the tool that made it."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import softneuro
from softneuro import compare, reference
from softneuro.cli.main import main
from softneuro.demo import data
from softneuro.importer.model import import_model
from tools import train_demo
from tools.demo_net import CONVS, OnnxWriter

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parent.parent
LAYERS = [f"{name}.conv" for name in CONVS] + ["pool", "mean", "logits"]


@pytest.fixture(scope="module")
def default_plan() -> softneuro.Plan:
    return softneuro.tune(data.model_path(), threads=1, time_limit=0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, default_plan: softneuro.Plan) -> None:
    """The command takes the default plan and passes over the pictures once."""
    monkeypatch.setattr("softneuro.cli.demo.tune", lambda *_args, **_options: default_plan)
    monkeypatch.setattr(compare.turns, "_TURNS", 1)


def rows(capsys: Capture) -> dict[str, str]:
    """What was printed on standard output, by the first word of each line; on standard error there is one remark."""
    printed = capsys.readouterr()
    assert printed.err.startswith("tuning a CNN") and printed.err.count("\n") == 1
    return {line.split()[0]: line for line in printed.out.splitlines() if line}


# ---- what ships


def test_the_model_is_small_and_says_how_it_was_made() -> None:
    assert data.model_path().stat().st_size <= 400_000
    model = onnx.load(data.model_path())
    assert all(word in model.doc_string for word in ("Fashion-MNIST", "MIT licence", "tools/train_demo.py", "seed"))
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_pictures_are_twenty_of_each_class() -> None:
    pictures, labels = data.load_pictures()
    assert pictures.shape == (200, 1, 28, 28) and pictures.dtype == np.float32
    assert pictures.min() == 0 and pictures.max() == 1
    assert np.bincount(labels).tolist() == [20] * 10


def test_the_plan_tells_clothes_apart(default_plan: softneuro.Plan) -> None:
    pictures, labels = data.load_pictures()
    found = softneuro.Session(default_plan).run({data.INPUT: pictures})[data.OUTPUT].argmax(1)
    assert (found == labels).mean() >= 0.9
    expected = reference.run(import_model(data.model_path()), {data.INPUT: pictures})[data.OUTPUT].argmax(1)
    np.testing.assert_array_equal(found, expected)


def test_everything_goes_into_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["softneuro.demo"]
    files = {path.name for path in data.model_path().parent.iterdir() if path.is_file() and path.suffix != ".py"}
    assert files == set(listed)


# ---- the command


def test_demo_tunes_and_says_what_was_gained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softneuro.cli.demo.tune", partial(softneuro.tune, effort=1))
    assert main(["demo", "--threads", "1"]) == 0
    printed = rows(capsys)
    assert all(name in printed for name in LAYERS)
    assert "conv." in printed["second.conv"] and "-> 1x64x7x7" in printed["second.conv"] and "%" in printed["second.conv"]
    assert "1 thread," in printed["tuned"]
    assert "of 200 pictures right (9" in printed["accuracy"]
    assert all(word in printed["search"] for word in ("measured", "default plan", "optimal"))
    assert "ms per picture" in printed["softneuro"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("at_once")
def test_demo_compares_with_onnxruntime(capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["demo", "--threads", "1"]) == 0
    printed = rows(capsys)["onnxruntime"]
    assert "ms per picture on as many threads" in printed and "largest difference" in printed


@pytest.mark.usefixtures("at_once")
def test_demo_as_data(capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["demo", "--threads", "1", "--json", "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found = json.loads(printed.out)
    assert (found["pictures"], found["pictures_right"] > 180, found["threads"]) == (200, True, 1)
    assert {row["name"] for row in found["rows"]} >= set(LAYERS)
    assert found["picture_ns"] > 0 and found["onnxruntime"]["picture_ns"] > 0 and found["onnxruntime"]["agrees"]


@pytest.mark.usefixtures("at_once")
def test_demo_does_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo", "--threads", "1"]) == 0
    printed = rows(capsys)
    assert "not compared: comparing with onnxruntime needs the extra" in printed["onnxruntime"]
    assert "ms per picture" in printed["softneuro"]


@pytest.mark.usefixtures("at_once")
def test_demo_fails_when_onnxruntime_answers_otherwise(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Peer:
        def run(self, names: None, feeds: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
            return [np.ones((1, 10), np.float32)]

    monkeypatch.setattr("softneuro.cli.demo.onnxruntime_session", lambda *_: Peer())
    assert main(["demo", "--threads", "1"]) == 1
    assert "too much" in rows(capsys)["onnxruntime"]


def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    ticks: Iterator[int] = iter(range(0, 10_000, 5))
    monkeypatch.setattr(compare.turns.time, "sleep", lambda _: called.append("pause"))
    monkeypatch.setattr(compare.turns.time, "perf_counter_ns", lambda: next(ticks))

    def engine(name: str) -> Callable[[Mapping[str, Any]], None]:
        return lambda feeds: called.append(f"{name}{feeds['x']}")

    monkeypatch.setattr(compare.turns, "_TURNS", 2)
    times = compare.times_in_turns({"a": engine("a"), "b": engine("b")}, [{"x": 0}, {"x": 1}])  # type: ignore[dict-item]
    assert called == ["pause", "a0", "a0", "a1", "pause", "b0", "b0", "b1"] * 2
    assert times == {"a": 5, "b": 5}


# ---- the tool


def test_the_tool_writes_the_graph_that_ships() -> None:
    shipped = onnx.load(data.model_path())
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in shipped.graph.initializer}
    assert OnnxWriter(weights).model(shipped.doc_string).graph == shipped.graph


def test_the_sample_is_not_chosen_by_its_answers() -> None:
    labels = np.tile(np.arange(10, dtype=np.uint8), 30)
    pictures = np.arange(300, dtype=np.uint16)
    found, of = train_demo.sample(pictures, labels)
    assert found.tolist() == list(range(200)) and of.tolist() == labels[:200].tolist()


def test_training_without_torch_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        train_demo.main(["--data", str(tmp_path), "--output", str(tmp_path)])
    assert caught.value.code == 2
    assert "training needs PyTorch: pip install torch" in capsys.readouterr().err
