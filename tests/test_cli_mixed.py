"""``softneuro tune`` with data types beside float32: options, the frontier, the calibration table, what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_build import model, normal

import softneuro
from softneuro.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    onnx.save(model(nodes, {"x": normal(1, 16, 8, 8)}, ["y"], constants={"w": normal(32, 16, 1, 1)}), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=normal(6, 16, 8, 8))
    (tmp_path / "own_metric.py").write_text("def mean(outputs):\n    return sum(o['y'].mean() for o in outputs) / len(outputs)\n")
    return tmp_path / "net.onnx"


def arguments(net: Path, *more: object) -> list[str]:
    data = ["--calibration", net.parent / "data.npz"]
    common = ["tune", net, "-o", net.parent / "net.plan", "--force", "--effort", "1", "--threads", "1", "-q"]
    return [str(argument) for argument in (*common, *data, *more)]


def test_the_frontier_is_printed_drawn_and_kept(net: Path, capsys: Capture) -> None:
    table, picture = net.parent / "table.json", net.parent / "frontier.png"
    more = ["--dtypes", "f32,bf16,qint8", "--max-error", "0.5", "--frontier", "--plot", picture, "--save-calibration", table]
    assert main(arguments(net, *more)) == 0
    text = capsys.readouterr().out
    assert "weights" in text and "MB" in text and picture.read_bytes().startswith(b"\x89PNG")
    made = softneuro.Plan.load(net.parent / "net.plan").provenance
    assert made.frontier and made.budget == "relative error of outputs at most 0.5"
    assert set(json.loads(table.read_text())["tensors"]) >= {"x"}
    assert main(arguments(net, "--dtypes", "f32,qint8", "--calibration", table, "--json")) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["frontier"][0]["loss"] < 1e-5 and data["budget"] == "relative error of outputs at most 0.01"


def test_a_metric_of_ones_own(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(net.parent)
    more = ["--dtypes", "f32,bf16", "--metric", "own_metric:mean", "--max-drop", "0.1"]
    assert main(arguments(net, *more)) == 0
    assert softneuro.Plan.load(net.parent / "net.plan").provenance.budget == "metric drops by at most 0.1"


@pytest.mark.parametrize(("more", "message"), [
    (["--frontier"], "has no meaning with float32 alone, needed --dtypes f32,bf16,qint8"),
    (["--dtypes", "f32,bf16", "--plot", "frontier.gif"], "found the suffix '.gif'"),
    (["--dtypes", "f32,bf16", "--calibration", "more.npz"], "found 2 sources of samples and 0 tables, needed at most one each"),
    (["--dtypes", "f32,bf16", "--max-error", "0.1", "--min-agreement", "0.9"], "found 2 budgets, needed one"),
    (["--dtypes", "f32,bf16", "--metric", "own_metric:mean"], "metric and max_drop: found one of them"),
    (["--dtypes", "f32,bf16", "--metric", "own_metric:median", "--max-drop", "0"], "own_metric:median: AttributeError"),
    (["--dtypes", "f32,bf16", "--metric", "mean", "--max-drop", "0"], "mean: needed module:function"),
])  # fmt: skip
def test_what_does_not_fit(net: Path, more: list[str], message: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(net.parent)
    assert main(arguments(net, *more)) == 3
    assert message in capsys.readouterr().err
