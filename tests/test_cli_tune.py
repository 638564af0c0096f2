"""``softneuro tune``: plans written, models and files refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import softneuro
from softneuro import reference
from softneuro.cli.main import main
from softneuro.importer.model import import_model
from tests.cli_harness import Bench, Capture, picture, refused, write_model


def test_tune_writes_a_plan_and_a_profile(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan, profile = tmp_path / "a.plan", tmp_path / "times.jsonl"
    assert main(["tune", str(bench.model), "-o", str(plan), "--threads", "1", "--profile", str(profile)]) == 0
    printed = capsys.readouterr()
    assert str(plan) in printed.out and "measured" in printed.out and "x=1x3x6x5" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert printed.err == ""
    assert profile.read_text().count("\n") >= 4
    made = softneuro.Plan.load(plan).provenance
    assert made.threads == 1 and made.measured_ns and made.default_ns and made.measured_ns <= made.default_ns
    feeds = {"x": picture()}
    expected = reference.run(import_model(bench.model), feeds)["y"]
    np.testing.assert_allclose(softneuro.Session(plan).run(feeds)["y"], expected, rtol=1e-4, atol=1e-4)


def test_tune_without_measuring(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    profile = tmp_path / "times.jsonl"
    arguments = ["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--time-limit", "0", "--profile", str(profile)]
    assert main(arguments) == 0
    assert "measured" not in capsys.readouterr().out
    assert not profile.exists()
    made = softneuro.Plan.load(tmp_path / "a.plan").provenance
    assert made.measured_ns is None and made.predicted_ns is None and not made.layer_ns


def test_tune_takes_shapes_of_free_dimensions(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "a.plan"
    assert main(["tune", str(bench.free), "-o", str(plan), "--shape", "x=2x3x6x5", "--time-limit", "0"]) == 0
    assert "x=2x3x6x5" in capsys.readouterr().out
    assert softneuro.Plan.load(plan).provenance.shapes == {"x": (2, 3, 6, 5)}


def test_tune_does_not_overwrite_without_force(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "a.plan"
    plan.write_text("precious")
    arguments = ["tune", bench.model, "-o", plan, "--time-limit", "0"]
    refused(capsys, arguments, "exists already, needed --force to overwrite it")
    assert plan.read_text() == "precious"
    assert main([*map(str, arguments), "--force"]) == 0
    assert softneuro.Plan.load(plan).graph.layers


def test_tune_never_overwrites_the_model(tmp_path: Path, capsys: Capture) -> None:
    model = write_model(tmp_path / "a.onnx")
    before = model.read_bytes()
    refused(capsys, ["tune", model, "-o", model, "--force"], "is the model itself, needed another name for the plan")
    assert model.read_bytes() == before


@pytest.mark.parametrize(("place", "message"), [
    ("absent/a.plan", "its folder does not exist or cannot be written"),
    (".", "is a folder, needed the name of a file"),
])  # fmt: skip
def test_plan_file_that_cannot_be_written(bench: Bench, tmp_path: Path, capsys: Capture, place: str, message: str) -> None:
    refused(capsys, ["tune", bench.model, "-o", tmp_path / place, "--time-limit", "0", "--force"], message)


@pytest.mark.parametrize(("shapes", "message"), [
    (["z=1x3x6x5"], "'z'"),
    (["x=1x3x6"], "'x'"),
    (["x=1x4x6x5"], "4"),
])  # fmt: skip
def test_tune_with_shapes_that_do_not_fit(bench: Bench, tmp_path: Path, capsys: Capture, shapes: list[str], message: str) -> None:
    options = [f"--shape={text}" for text in shapes]
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--time-limit", "0", *options], message)
    assert not (tmp_path / "a.plan").exists()


def _external(path: Path, location: str, data: bytes | None) -> Path:
    """The model with its last weights in a file of their own."""
    proto = onnx.load(write_model(path))
    tensor = next(t for t in proto.graph.initializer if t.name == "w2")
    raw = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(proto.SerializeToString())
    if data is not None:
        (path.parent / location).resolve().write_bytes(raw if data == b"right" else data)
    return path


@pytest.mark.parametrize(("location", "data", "message"), [
    ("w2.bin", None, "tensor 'w2': its data file 'w2.bin' is missing from the model's folder"),
    ("w2.bin", b"short", "tensor 'w2': file 'w2.bin' has 5 bytes, needed 5760"),
    ("../w2.bin", b"right", "tensor 'w2': its data file '../w2.bin' is outside of the model's folder, needed one inside"),
    ("/w2.bin", None, "tensor 'w2': its data file '/w2.bin' is outside of the model's folder, needed one inside"),
], ids=["missing", "short", "leaves_the_folder", "absolute"])  # fmt: skip
def test_external_data(tmp_path: Path, capsys: Capture, location: str, data: bytes | None, message: str) -> None:
    (tmp_path / "inner").mkdir()
    model = _external(tmp_path / "inner" / "a.onnx", location, data)
    refused(capsys, ["tune", model, "-o", tmp_path / "a.plan", "--time-limit", "0"], message)


def test_external_data_in_the_folder(tmp_path: Path) -> None:
    model = _external(tmp_path / "a.onnx", "w2.bin", b"right")
    assert main(["tune", str(model), "-o", str(tmp_path / "a.plan"), "--time-limit", "0"]) == 0


@pytest.mark.parametrize(("change", "message"), [
    (None, "cannot be read (No such file or directory)"),
    (lambda data: data[: len(data) // 2], "needed a whole model"),
    (lambda data: b"", "needed an ONNX model"),
    (lambda data: b"hello, world", "needed a"),
], ids=["missing", "truncated", "empty", "foreign"])  # fmt: skip
def test_damaged_models(bench: Bench, tmp_path: Path, capsys: Capture, change: Callable[[bytes], bytes] | None,
                        message: str) -> None:
    model = tmp_path / "b.onnx"
    if change is not None:
        model.write_bytes(change(bench.model.read_bytes()))
    refused(capsys, ["tune", model, "-o", tmp_path / "a.plan", "--time-limit", "0"], message)
    assert not (tmp_path / "a.plan").exists()


def test_model_that_is_a_folder(tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, ["tune", tmp_path, "-o", tmp_path / "a.plan"], "cannot be read (Is a directory)")


def test_profile_that_is_something_else(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    foreign = tmp_path / "times.jsonl"
    foreign.write_text("not a measurement\nnor this\n")
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--profile", foreign], "line 1: is not a measurement")
    assert foreign.read_text() == "not a measurement\nnor this\n"


def test_data_types_to_come(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--dtypes", "f32,bf16"], "dtypes: found f32,bf16")


def test_interruption_says_how_to_go_on(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softneuro.cli.tune.tune", interrupt)
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan")]) == 130
    assert "interrupted" in capsys.readouterr().err
