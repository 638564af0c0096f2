"""``softneuro compare``: what is right, what differs, and where."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, picture, refused


@pytest.fixture
def nan_model(bench: Bench, tmp_path: Path) -> Path:
    """The bench's model with a weight of the second convolution that is not a number."""
    proto = onnx.load(bench.model)
    weights = next(tensor for tensor in proto.graph.initializer if tensor.name == "w1")
    array = numpy_helper.to_array(weights).copy()
    array[0] = np.nan
    weights.CopyFrom(numpy_helper.from_array(array, "w1"))
    onnx.save(proto, tmp_path / "nan.onnx")
    return tmp_path / "nan.onnx"


@pytest.mark.parametrize("peer", ["onnxruntime", "reference", "itself", "model"])
@pytest.mark.parametrize("layers", [[], ["--layers"]], ids=["outputs", "layers"])
def test_compare_finds_no_difference(bench: Bench, capsys: Capture, peer: str, layers: list[str]) -> None:
    if peer == "onnxruntime":
        pytest.importorskip("onnxruntime")
    against = {"itself": str(bench.plan), "model": str(bench.model)}.get(peer, peer)
    assert main(["compare", str(bench.plan), "--against", against, *layers]) == 0  # the model is found beside the plan
    printed = capsys.readouterr().out
    assert "right" in printed and "differs" not in printed and "departs" not in printed.replace("no layer departs", "")
    assert ("no layer departs by more than 0.0001" in printed) == bool(layers)


def test_a_model_is_compared_with_itself_elsewhere(bench: Bench, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["compare", str(bench.model)]) == 0
    assert "is a model: its layers run with default routines" in capsys.readouterr().err


def test_compare_finds_a_difference(bench: Bench, capsys: Capture) -> None:
    assert main(["compare", str(bench.plan), "--against", str(bench.other_plan)]) == 1
    printed = capsys.readouterr()
    assert "differs" in printed.out and "smallest tolerance that passes" in printed.out
    assert printed.err == "random input for x (seed 0)\n"


def test_the_smallest_tolerance_passes(bench: Bench, capsys: Capture) -> None:
    arguments = ["compare", str(bench.plan), "--against", str(bench.other_plan), "--json"]
    assert main(arguments) == 1
    needed = json.loads(capsys.readouterr().out)["smallest_tolerance"]
    assert main([*arguments, "--tolerance", repr(needed)]) == 0
    assert json.loads(capsys.readouterr().out)["right"] is True
    assert main([*arguments, "--tolerance", repr(needed * 0.999)]) == 1


def test_the_first_layer_that_departs_is_marked(bench: Bench, nan_model: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["compare", str(bench.plan), "--model", str(nan_model), "--layers"]) == 1
    printed = capsys.readouterr().out
    marked = [line.split() for line in printed.splitlines() if "<-- first" in line]
    assert len(marked) == 1 and marked[0][1] == "conv" and "r1" in marked[0] and "departs" in marked[0]
    assert f"first departure: layer '{marked[0][0]}' (conv, {marked[0][2]}), tensor 'r1': NaN there only" in printed
    assert "y: NaN there only" in printed and "0/12" in printed and "no tolerance passes" in printed


def test_json_names_the_first_departure_and_has_no_infinity(bench: Bench, nan_model: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["compare", str(bench.plan), "--model", str(nan_model), "--layers", "--json"]) == 1
    data = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(text))
    assert data["right"] is False and data["smallest_tolerance"] is None
    assert data["first_departure"]["tensor"] == "r1"
    assert data["first_departure"]["difference"]["nan_there"] > 0
    assert data["layers"][0]["difference"]["right"] is True
    (output,) = data["outputs"]
    assert output["name"] == "y" and output["absolute"] is None and output["note"] == "NaN there only"


def test_outputs_decide_when_only_a_tensor_inside_departs(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    """The second model has other weights before a multiplication by zero."""
    for name, weight in (("a", 1.0), ("b", 2.0)):
        nodes = [helper.make_node("Mul", ["x", "w"], ["inside"]), helper.make_node("Softmax", ["inside"], ["s"]),
                 helper.make_node("Mul", ["s", "zero"], ["y"])]  # fmt: skip
        values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in ("x", "y")]
        constants = [numpy_helper.from_array(np.full(4, value, np.float32), n) for n, value in (("w", weight), ("zero", 0.0))]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / f"{name}.onnx")
    assert main(["compare", str(tmp_path / "a.onnx"), "--against", str(tmp_path / "b.onnx"), "--layers"]) == 0
    printed = capsys.readouterr().out
    assert "departs <-- first" in printed and "the outputs are right all the same" in printed


def test_json_without_layers(bench: Bench, capsys: Capture) -> None:
    assert main(["compare", str(bench.plan), "--against", str(bench.plan), "--json", "--seed", "3"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, 3, 6, 5], "source": "random"}]
    assert "layers" not in data and data["seed"] == 3 and data["tolerance"] == 1e-4


def test_files_are_compared_on(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", picture(2))
    arguments = ["--input", f"x={tmp_path / 'x.npy'}", "--against", str(bench.free_plan), "--threads", "1"]
    assert main(["compare", str(bench.free), *arguments]) == 0
    printed = capsys.readouterr()
    assert "float32 (2, 12)" in printed.out and "random" not in printed.err


def test_compare_against_a_plan_of_another_model(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    proto = onnx.load(bench.model)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "picture"
    onnx.save(proto, tmp_path / "b.onnx")
    softneuro.tune(tmp_path / "b.onnx", threads=1, time_limit=0).save(tmp_path / "b.plan")
    refused(capsys, ["compare", bench.plan, "--against", tmp_path / "b.plan"], "input 'x' is not one of the model's")


@pytest.fixture
def lonely_plan(bench: Bench, tmp_path: Path) -> Path:
    """A plan whose model is not beside it."""
    (tmp_path / "alone").mkdir()
    plan = tmp_path / "alone" / "a.plan"
    plan.write_bytes(bench.plan.read_bytes())
    return plan


def test_onnxruntime_needs_the_model(lonely_plan: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    refused(capsys, ["compare", lonely_plan], "needed --model model.onnx")
    refused(capsys, ["compare", lonely_plan, "--model", tmp_path / "absent.onnx"], "onnxruntime cannot run")


def test_the_reference_does_without_the_model(lonely_plan: Path, capsys: Capture) -> None:
    assert main(["compare", str(lonely_plan), "--against", "reference", "--layers"]) == 0
    assert "taking the plan's own layers" in capsys.readouterr().err


def test_without_onnxruntime(bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(capsys, ["compare", bench.plan], "comparing with onnxruntime needs the extra", code=4)


@pytest.mark.parametrize(("against", "message"), [
    ("onnxruntim", "--against onnxruntim: is no file, did you mean 'onnxruntime'?, needed onnxruntime or reference"),
    ("absent.plan", "--against absent.plan: is no file"),
])  # fmt: skip
def test_engines_that_are_none(bench: Bench, capsys: Capture, against: str, message: str) -> None:
    refused(capsys, ["compare", bench.plan, "--against", against], message)


@pytest.mark.parametrize("tolerance", ["-1", "nan", "much"])
def test_tolerances_that_are_none(bench: Bench, capsys: Capture, tolerance: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", str(bench.plan), f"--tolerance={tolerance}"])
    assert caught.value.code == 2 and "--tolerance" in capsys.readouterr().err
