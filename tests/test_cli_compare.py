"""``softneuro compare``: what is right, what differs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, refused


@pytest.mark.parametrize("peer", ["onnxruntime", "itself"])
def test_compare_finds_no_difference(bench: Bench, capsys: Capture, peer: str) -> None:
    if peer == "onnxruntime":
        pytest.importorskip("onnxruntime")
    against = peer if peer == "onnxruntime" else str(bench.plan)
    assert main(["compare", str(bench.plan), "--model", str(bench.model), "--against", against]) == 0
    printed = capsys.readouterr().out
    assert "right" in printed and "differs" not in printed


def test_compare_finds_a_difference(bench: Bench, capsys: Capture) -> None:
    assert main(["compare", str(bench.plan), "--against", str(bench.other_plan)]) == 1
    printed = capsys.readouterr()
    assert "differs" in printed.out and "smallest tolerance that passes" in printed.out
    assert printed.err == "random input for x (seed 0)\n"


def test_compare_against_a_plan_of_another_model(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    proto = onnx.load(bench.model)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "picture"
    onnx.save(proto, tmp_path / "b.onnx")
    softneuro.tune(tmp_path / "b.onnx", threads=1, time_limit=0).save(tmp_path / "b.plan")
    refused(capsys, ["compare", bench.plan, "--against", tmp_path / "b.plan"], "input 'x' is not one of the model's")


def test_compare_needs_the_model(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    refused(capsys, ["compare", bench.plan], "needs the model: --model model.onnx")
    refused(capsys, ["compare", bench.plan, "--model", tmp_path / "absent.onnx"], "onnxruntime cannot run")
