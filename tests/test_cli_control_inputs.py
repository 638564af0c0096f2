"""The command line for models with inputs that decide what runs, and for inputs that are no tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_build import normal
from test_bodies import model, value
from test_control_inputs import rated

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Capture, refused


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("voice") / "voice.onnx"
    onnx.save(rated(), path)
    return path


@pytest.fixture(scope="module")
def plan(voice: Path) -> Path:
    path = voice.with_suffix(".plan")
    softneuro.tune(voice, shapes={"x": (2, 6)}, values={"sr": 8000}, threads=1, effort=0).save(path)
    return path


def test_tune_says_what_it_chose(voice: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["tune", voice, "-o", tmp_path / "a.plan", "--shape", "x=2x6", "--effort", "0"]
    assert main(list(map(str, arguments))) == 0
    remark = "input sr decides which branch of the model runs: tuned for 16000, needed --input sr=… for another one"
    assert remark in capsys.readouterr().err
    assert main([*map(str, arguments), "--force", "--input", "sr=8000"]) == 0
    assert "decides" not in capsys.readouterr().err
    assert softneuro.Plan.load(tmp_path / "a.plan").provenance.values == {"sr": 8000}


def test_tune_for_both_branches(voice: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["tune", str(voice), "-o", str(tmp_path / "a.plan"), "--effort", "0", "--json"]
    assert main([*arguments, *["--shape", "x=2x6", "--shape", "x=3x6", "--input", "sr=16000", "--input", "sr=8000"]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["values"] == [{"sr": 16000}, {"sr": 8000}]
    assert [shapes["x"] for shapes in found["shapes"]] == [[2, 6], [3, 6]]


def test_values_that_tune_does_not_take(voice: Path, tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, ["tune", voice, "-o", tmp_path / "a.plan", "--input", "x=1"],
            "values: found input 'x', which does not decide what runs, needed one of 'sr'")  # fmt: skip
    with pytest.raises(SystemExit):
        main(["tune", str(voice), "-o", str(tmp_path / "a.plan"), "--input", "sr=fast"])
    assert "found 'sr=fast', needed name=16000 with a whole number" in capsys.readouterr().err


def test_inspect_lists_what_decides(voice: Path, plan: Path, capsys: Capture) -> None:
    for path, number in ((voice, 16000), (plan, 8000)):
        assert main(["inspect", str(path), "--shape", "x=2x6"]) == 0
        assert f"decides      sr (shown for {number})" in capsys.readouterr().out
        assert main(["inspect", str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["decides"] == {"sr": number} and not any(layer["op"] == "if" for layer in found["layers"])


def test_runs_have_the_tuned_value_unless_another_is_given(plan: Path, capsys: Capture) -> None:
    for extra, width in (([], 5), (["--input", "sr=16000"], 8)):
        assert main(["run", str(plan), "--json", *extra]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["outputs"][0]["shape"] == [2, width]
        assert ("sr: 8000, which decides what runs" in shown.err) == (not extra)


def test_profile_shows_the_branch_that_runs(plan: Path, capsys: Capture) -> None:
    for extra, branch in (([], "else"), (["--input", "sr=16000"], "then")):
        assert main(["profile", str(plan), "--json", "--repeat", "2", *extra]) == 0
        names = [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]]
        assert any(f"/{branch}/" in name for name in names)
        assert main(["profile", str(plan), "--why", f"*/{branch}/*", "--no-measure", *extra]) == 0
        assert f"/{branch}/" in capsys.readouterr().out


def test_sizes_that_nobody_gave(tmp_path: Path, capsys: Capture) -> None:
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", dims=["n", 1, "length"])], "y", w=normal(2, 1, 40))
    onnx.save(proto, tmp_path / "m.onnx")
    refused(capsys, ["tune", tmp_path / "m.onnx", "-o", tmp_path / "a.plan"],
            "free dimensions were taken as 1 (x=1x1x1), needed others, such as --shape x=1x1x64")  # fmt: skip


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """How many arrays are in a sequence."""
    path = tmp_path_factory.mktemp("listed") / "listed.onnx"
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]))
    node = helper.make_node("SequenceLength", ["s"], ["y"])
    graph = helper.make_graph([node], "m", [helper.make_value_info("s", kind)], [value("y", TensorProto.INT64, [])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def test_a_sequence_is_made_up_too(listed: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", str(listed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"][0]["values"] == [1]
    assert found["inputs"] == [{"name": "s", "dtype": "list", "shape": None, "source": "random"}]
    assert main(["profile", str(listed), "--repeat", "2", "--html", str(tmp_path / "a.html")]) == 0
    refused(capsys, ["bench", listed], "input 's' is a list, needed a model that takes tensors alone")


def test_the_value_of_a_program_may_be_given_as_an_array(plan: Path) -> None:
    session = softneuro.Session(plan)
    assert session.control_inputs == ("sr",)
    found = session.run({"sr": 16000, "x": np.zeros((2, 6), np.float32)})
    assert found["y"].shape == (2, 8)
