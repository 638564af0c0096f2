"""``softneuro run``: files, pictures and numbers in, outputs shown and written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, picture, refused, write_identity


@pytest.mark.parametrize("name", ["x.npy", "all.npz", "named=x.npy"])
def test_run_reads_files_and_writes_outputs(bench: Bench, tmp_path: Path, capsys: Capture, name: str) -> None:
    np.save(tmp_path / "x.npy", picture())
    np.savez(tmp_path / "all.npz", x=picture())
    given = f"x={tmp_path / 'x.npy'}" if name.startswith("named") else str(tmp_path / name)
    assert main(["run", str(bench.plan), "--input", given, "--output", str(tmp_path / "results")]) == 0
    captured = capsys.readouterr()
    row = next(line.split() for line in captured.out.splitlines() if line.startswith("y "))
    assert row[:3] == ["y", "float32", "1x12"]
    assert captured.err == f"wrote {tmp_path / 'results' / 'y.npy'}\n"
    found = np.load(tmp_path / "results" / "y.npy")
    np.testing.assert_array_equal(found, softneuro.Session(bench.plan).run({"x": picture()})["y"])
    assert [float(row[3]), float(row[4])] == pytest.approx([found.min(), found.max()], rel=1e-4)


def test_run_shows_the_largest_classes(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", picture(2))
    assert main(["run", str(bench.free_plan), "--input", str(tmp_path / "x.npy")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if ": largest " in line]
    logits = softneuro.Session(bench.free_plan).run({"x": picture(2)})["y"]
    for sample, line in enumerate(lines):
        best = np.argsort(-logits[sample])[:5]
        assert line == f"y[{sample}]: largest " + ", ".join(f"{i} ({logits[sample, i]:.4g})" for i in best)
    assert len(lines) == 2


def test_run_makes_random_input_and_says_so(bench: Bench, capsys: Capture) -> None:
    assert main(["run", str(bench.free_plan), "--shape", "x=3x3x6x5", "--repeat", "4", "--seed", "7"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "random input for x (seed 7)\n"
    assert " 3x12 " in captured.out
    for word in ("first run", "then 3 on 1 thread", "median", "minimum", "p90", "p99", "inferences/s"):
        assert word in captured.out


def test_quiet_prints_no_remarks(bench: Bench, capsys: Capture) -> None:
    assert main(["run", str(bench.plan), "-q"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("repeat", [1, 3])
def test_json_is_complete(bench: Bench, capsys: Capture, repeat: int) -> None:
    assert main(["run", str(bench.plan), "--json", "--repeat", str(repeat), "--threads", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, 3, 6, 5], "source": "random"}]
    (output,) = data["outputs"]
    assert output["name"] == "y" and output["shape"] == [1, 12] and output["nan"] == output["inf"] == 0
    assert len(output["top"][0]) == 5 and output["top"][0][0]["value"] == output["largest"]
    times = data["times"]
    assert times["runs"] == repeat and times["first_ns"] > 0
    assert (times["median_ns"] is None) == (repeat == 1)
    if repeat > 1:
        assert times["minimum_ns"] <= times["median_ns"] <= times["p90_ns"] <= times["p99_ns"]


def test_json_has_no_nan(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 6, 5), np.nan, np.float32))
    assert main(["run", str(bench.plan), "--json", "--input", str(tmp_path / "x.npy")]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert output["nan"] == 12 and output["least"] is None and output["top"][0][0]["value"] is None


def test_numbers_that_are_not_finite_are_counted(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 6, 5), np.nan, np.float32))
    assert main(["run", str(bench.plan), "--input", str(tmp_path / "x.npy")]) == 0
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["output", "type", "shape", "least", "largest", "NaN", "inf"]
    assert row.split() == ["y", "float32", "1x12", "-", "-", "12", "0"]


def test_a_model_runs_with_default_routines(bench: Bench, capsys: Capture) -> None:
    assert main(["run", str(bench.model)]) == 0
    assert "is a model: its layers run with default routines" in capsys.readouterr().err


def test_a_model_takes_the_sizes_of_its_files(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", picture(4))
    assert main(["run", str(bench.free), "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert " 4x12 " in capsys.readouterr().out


def test_a_number_has_the_sizes_of_the_files(tmp_path: Path) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": ["n", "length"], "mask": ["n", "length"]})
    softneuro.tune(model, time_limit=0).save(tmp_path / "m.plan")
    np.save(tmp_path / "x.npy", np.zeros((2, 9), np.float32))
    arguments = ["--input", "mask=1", "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "r")]
    assert main(["run", str(tmp_path / "m.plan"), *arguments]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "r" / "mask_out.npy"), np.ones((2, 9), np.float32))


def test_all_outputs_in_one_file_that_can_be_read_again(tmp_path: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"file": ["n", 2], "a/b": ["n", 3]})
    assert main(["run", str(model), "--shape", "file=2x2", "--output", str(tmp_path / "all.npz")]) == 0
    found = np.load(tmp_path / "all.npz")
    assert {name: found[name].shape for name in found.files} == {"file_out": (2, 2), "a/b_out": (2, 3)}
    np.savez(tmp_path / "again.npz", **{"a/b": found["a/b_out"]})
    assert main(["run", str(model), "--json", "--input", str(tmp_path / "again.npz")]) == 0
    out = capsys.readouterr().out
    inputs = json.loads(out[out.index("{") :])["inputs"]
    assert [(i["name"], i["shape"], i["source"]) for i in inputs] == [
        ("file", [2, 2], "random"), ("a/b", [2, 3], str(tmp_path / "again.npz"))]  # fmt: skip


def test_outputs_whose_names_make_one_file_name_get_two(tmp_path: Path) -> None:
    model = write_identity(tmp_path / "m.onnx", {"a/b": [1], "a_b": [2], "..": [3]})
    assert main(["run", str(model), "--output", str(tmp_path / "r")]) == 0
    assert {path.name: np.load(path).shape for path in (tmp_path / "r").iterdir()} == {
        "a_b_out.npy": (1,), "a_b_out-1.npy": (2,), ".._out.npy": (3,)}  # fmt: skip


def test_few_values_are_shown(tmp_path: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": [3]})
    np.save(tmp_path / "x.npy", np.array([1.5, -2, 0.25], np.float32))
    assert main(["run", str(model), "--input", str(tmp_path / "x.npy")]) == 0
    assert "1.5 -2 0.25" in capsys.readouterr().out


def test_texts_are_shown_and_written(tmp_path: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": [2]}, TensorProto.STRING)
    np.save(tmp_path / "x.npy", np.array(["one", "two"]))
    assert main(["run", str(model), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "r")]) == 0
    assert "one two" in capsys.readouterr().out
    assert np.load(tmp_path / "r" / "x_out.npy").tolist() == ["one", "two"]


def test_sequences_are_shown_and_written_by_element(tmp_path: Path, capsys: Capture) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2])
    y = helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None)))
    graph = helper.make_graph([helper.make_node("SplitToSequence", ["x"], ["y"], axis=0)], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    for target, keys in (("folder", ["[0]", "[1]", "[2]", "[3]"]), ("all.npz", ["y[0]", "y[1]", "y[2]", "y[3]"])):
        assert main(["run", str(tmp_path / "m.onnx"), "--output", str(tmp_path / target)]) == 0
        file = tmp_path / target / "y.npz" if target == "folder" else tmp_path / target
        assert sorted(np.load(file).files) == keys
    assert "y[3]" in capsys.readouterr().out


def test_run_does_not_overwrite_without_force(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "y.npy").write_text("precious")
    arguments = ["run", bench.plan, "--output", tmp_path]
    refused(capsys, arguments, "exists already, needed --force to overwrite it")
    assert (tmp_path / "y.npy").read_text() == "precious"
    assert main([*map(str, arguments), "--force"]) == 0
    assert np.load(tmp_path / "y.npy").shape == (1, 12)


@pytest.mark.parametrize("name", ["file", "file/deeper", "absent/all.npz"])
def test_places_that_cannot_be_written_are_refused(bench: Bench, tmp_path: Path, capsys: Capture, name: str) -> None:
    (tmp_path / "file").write_text("")
    refused(capsys, ["run", bench.plan, "--output", tmp_path / name], "cannot be")


def test_a_copied_plan_runs_elsewhere(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(bench.plan, tmp_path / "b.plan")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "b.plan"]) == 0


# ---- pictures


@pytest.fixture
def gradient(tmp_path: Path) -> Path:
    """A picture of 5 x 6 pixels whose red grows to the right and green downwards."""
    pixels = np.zeros((6, 5, 3), np.uint8)
    pixels[..., 0] = np.arange(5) * 50
    pixels[..., 1] = np.arange(6)[:, None] * 40
    Image.fromarray(pixels).save(tmp_path / "gradient.png")
    return tmp_path / "gradient.png"


def fed(model: Path, arguments: list[str], folder: Path) -> np.ndarray:
    """What an identity model was given."""
    assert main(["run", str(model), *arguments, "--output", str(folder), "--force"]) == 0
    return np.load(folder / "x_out.npy")


@pytest.mark.parametrize(("preprocess", "expected"), [
    ([], lambda p: p / 255), (["--preprocess", "unit"], lambda p: p / 255), (["--preprocess", "none"], lambda p: p),
    (["--preprocess", "signed"], lambda p: p / 127.5 - 1),
    (["--preprocess", "imagenet"], lambda p: (p / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)),
], ids=["default", "unit", "none", "signed", "imagenet"])  # fmt: skip
def test_a_picture_as_input(tmp_path: Path, gradient: Path, capsys: Capture, preprocess: list[str], expected: object) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": [1, 3, 6, 5]})
    found = fed(model, ["--input", str(gradient), *preprocess], tmp_path / "r")
    pixels = np.asarray(Image.open(gradient)).astype(np.float64)
    np.testing.assert_allclose(found[0].transpose(1, 2, 0), expected(pixels), atol=1e-6)  # type: ignore[operator]
    remark = f"x: {gradient}, 5x6 to 5x6 (stretch), RGB, channels first, --preprocess {(preprocess or ['unit'])[-1]}"
    assert remark in capsys.readouterr().err


def test_several_pictures_make_a_batch(tmp_path: Path, gradient: Path) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": ["n", 6, 5, 3]})
    Image.new("RGB", (5, 6), (255, 0, 0)).save(tmp_path / "red.jpg")
    arguments = ["--shape", "x=1x6x5x3", "--input", f"x={gradient}", "--input", f"x={tmp_path / 'red.jpg'}"]
    found = fed(model, arguments, tmp_path / "r")
    assert found.shape == (2, 6, 5, 3) and found[1, ..., 0].min() > 0.95


def test_bytes_stay_bytes(tmp_path: Path, gradient: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": [1, 3, 6, 5]}, TensorProto.UINT8)
    found = fed(model, ["--input", str(gradient)], tmp_path / "r")
    np.testing.assert_array_equal(found[0].transpose(1, 2, 0), np.asarray(Image.open(gradient)))
    refused(capsys, ["run", model, "--input", gradient, "--preprocess", "unit"], "input 'x': takes uint8, and pictures with "
            "--preprocess unit are fractions")  # fmt: skip


def test_a_picture_goes_to_the_only_input_that_takes_one(tmp_path: Path, gradient: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"size": [1, 2], "x": [1, 3, 6, 5]})
    found = fed(model, ["--input", str(gradient), "--input", "size=7"], tmp_path / "r")
    assert found.max() > 0.7
    assert (np.load(tmp_path / "r" / "size_out.npy") == 7).all()
    assert "random" not in capsys.readouterr().err


def test_one_picture_size_for_a_model_whose_sizes_are_free(tmp_path: Path, gradient: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": ["n", 3, "h", "w"]})
    refused(capsys, ["run", model, "--input", gradient], "height and width are free, needed --shape x=1x3xHxW")
    assert fed(model, ["--input", str(gradient), "--shape", "x=1x3x12x10"], tmp_path / "r").shape == (1, 3, 12, 10)


def test_the_batch_of_the_other_inputs_follows(tmp_path: Path, gradient: Path) -> None:
    model = write_identity(tmp_path / "m.onnx", {"x": ["n", 3, 6, 5], "y": ["n", 2]})
    assert fed(model, ["--input", str(gradient), "--input", str(gradient)], tmp_path / "r").shape == (2, 3, 6, 5)
    assert np.load(tmp_path / "r" / "y_out.npy").shape == (2, 2)
