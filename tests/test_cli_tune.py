"""``softneuro tune``: plans written, models and files refused, what is measured, dry runs, misses."""

from __future__ import annotations

import json
import shlex
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
    refused(capsys, ["tune", tmp_path, "-o", tmp_path / "a.plan"], "cannot be read (no regular file)")


def test_profile_that_is_something_else(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    foreign = tmp_path / "times.jsonl"
    foreign.write_text("not a measurement\nnor this\n")
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--profile", foreign], "line 1: is not a measurement")
    assert foreign.read_text() == "not a measurement\nnor this\n"


def test_data_types_that_there_are_none_of(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--dtypes", "f32,f8"], "dtypes: found f32,f8, needed f32")


# ---- what is tuned for


def test_several_sets_of_shapes(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "a.plan"
    arguments = ["tune", str(bench.free), "-o", str(plan), "--effort", "1", "--threads", "1"]
    assert main([*arguments, "--shape", "x=1x3x6x5", "--shape", "x=4x3x6x5"]) == 0
    assert "x=1x3x6x5 and x=4x3x6x5" in capsys.readouterr().out
    made = softneuro.Plan.load(plan).provenance
    assert (made.shapes, made.further_shapes) == ({"x": (1, 3, 6, 5)}, ({"x": (4, 3, 6, 5)},))


@pytest.mark.parametrize("rules", [["conv.direct.f32.chf@Conv_0"], ["f32:chf/direct@Conv_0..Conv_2", "!igemm"]])
def test_routines_are_pinned_and_forbidden(bench: Bench, tmp_path: Path, rules: list[str]) -> None:
    plan = tmp_path / "a.plan"
    options = [option for rule in rules for option in ("--routine", rule)]
    assert main(["tune", str(bench.model), "-o", str(plan), "--effort", "0", *options]) == 0
    assert softneuro.Plan.load(plan).choices["Conv_0"].routine == "conv.direct.f32.chf"


@pytest.mark.parametrize(("rule", "message"), [
    ("winogard", "did you mean 'winograd'"),
    ("igemm@Conv_1", "no layer is called 'Conv_1', did you mean 'Conv_"),
    ("winograd@Conv_2", "layer 'Conv_2' has no such routine, it offers "),
    ("!conv.*", "nothing is left to layer 'Conv_0'"),
])  # fmt: skip
def test_routines_that_do_not_fit(bench: Bench, tmp_path: Path, capsys: Capture, rule: str, message: str) -> None:
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--routine", rule], message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("effort", ["0", "1", "2", "3"])
def test_efforts(bench: Bench, tmp_path: Path, effort: str) -> None:
    plan = tmp_path / "a.plan"
    assert main(["tune", str(bench.model), "-o", str(plan), "--threads", "1", "--effort", effort]) == 0
    made = softneuro.Plan.load(plan).provenance
    assert (made.measured_ns is None) == (effort == "0")
    assert list(tmp_path.iterdir()) == [plan], "the file of measurements is gone"


@pytest.mark.parametrize("options", [
    ["--effort", "4"], ["--effort", "much"], ["--time-limit", "-1"], ["--shape", "x=1xx3"], ["--threads", "0"],
    ["--error-on-miss"],
], ids=" ".join)  # fmt: skip
def test_usage(bench: Bench, tmp_path: Path, capsys: Capture, options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), *options])
    assert ended.value.code == 2 and "usage: softneuro tune" in capsys.readouterr().err


def test_an_output_is_needed(bench: Bench, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", str(bench.model)])
    assert ended.value.code == 2 and "needed -o PLAN" in capsys.readouterr().err


# ---- what is printed


def test_json(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "a.plan"
    assert main(["tune", str(bench.model), "-o", str(plan), "--threads", "1", "--effort", "1", "--json"]) == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    made = softneuro.Plan.load(plan).provenance
    assert data["plan"] == str(plan) and data["model"] == "model.onnx" and data["threads"] == 1
    assert data["shapes"] == [{"x": [1, 3, 6, 5]}]
    assert data["measured_ns"] == made.measured_ns and data["kept"] == made.kept
    assert data["problems"] == len(made.measured) and data["candidates"] > data["problems"]
    assert data["candidates_failed_or_skipped"] == 0 and data["host_layers"] == []
    assert data["layers"] == 4 and data["seconds"] > 0
    assert printed.err == ""


def test_the_plan_knows_the_command(bench: Bench, tmp_path: Path) -> None:
    plan = tmp_path / "a plan.plan"
    assert main(["tune", str(bench.model), "-o", str(plan), "--effort", "0", "-q"]) == 0
    command = softneuro.Plan.load(plan).provenance.command
    assert command == f"softneuro tune {bench.model} -o '{plan}' --effort 0 -q"
    assert shlex.split(command)[0] == "softneuro"


@pytest.mark.parametrize(("option", "lines"), [([], False), (["-q"], False), (["-v"], True)], ids=["usual", "quiet", "verbose"])
def test_what_goes_to_standard_error(bench: Bench, tmp_path: Path, capsys: Capture, option: list[str], lines: bool) -> None:
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--threads", "1", "--effort", "1", *option]) == 0
    printed = capsys.readouterr()
    assert "measured" in printed.out
    if lines:
        assert all(word in printed.err for word in ("imported: ", "compiling ", "measuring ", "selected: ", "comparing "))
    else:
        assert printed.err == ""


# ---- dry runs


def test_dry_run(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    profile = tmp_path / "times.jsonl"
    assert main(["tune", str(bench.model), "--dry-run", "--threads", "1", "--profile", str(profile)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["op", "layers", "problems", "candidates", "known", "to", "compile", "seconds"]
    table = {line.split()[0]: line.split()[1:] for line in lines[1:-1]}
    assert table["conv"][:2] == ["2", "2"] and set(table) == {"conv", "view", "matmul", "adapt", "all"}
    assert lines[-1].startswith("tuning should take about ") and lines[-1].endswith("nothing was measured or written")
    assert not list(tmp_path.iterdir())


def test_dry_run_as_json_counts_what_is_known(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    profile, arguments = tmp_path / "times.jsonl", ["tune", str(bench.model), "--threads", "1"]
    arguments += ["--profile", str(profile)]
    assert main([*arguments, "-o", str(tmp_path / "a.plan"), "--effort", "1"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--dry-run", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["measure_seconds"] == 0 and all(op["known"] == op["candidates"] for op in data["ops"])
    assert data["seconds"] == pytest.approx(data["prepare_seconds"] + data["compile_seconds"] + data["check_seconds"])
    assert main([*arguments, "--dry-run", "--json", "--routine", "!igemm", "--effort", "3", "--time-limit", "60"]) == 0
    assert json.loads(capsys.readouterr().out)["time_limit"] == 60


def test_dry_run_of_nothing(bench: Bench, capsys: Capture) -> None:
    assert main(["tune", str(bench.model), "--dry-run", "--effort", "0"]) == 0
    assert capsys.readouterr().out == "nothing would be measured: every layer gets its default routine\n"


def test_dry_run_sees_what_is_left_over(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan, profile = tmp_path / "a.plan", tmp_path / "times.jsonl"
    arguments = ["tune", str(bench.model), "-o", str(plan), "--threads", "1"]
    assert main([*arguments, "--effort", "1", "--profile", str(profile)]) == 0
    profile.rename(tmp_path / "a.plan.measuring")
    capsys.readouterr()
    assert main([*arguments, "--dry-run", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measure_seconds"] == 0


# ---- misses


def test_error_on_miss(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    profile, plan = tmp_path / "times.jsonl", tmp_path / "a.plan"
    arguments = ["tune", bench.model, "-o", plan, "--threads", "1", "--profile", profile]
    refused(capsys, [*arguments, "--error-on-miss"], "lacks ")
    assert not list(tmp_path.iterdir())
    assert main([*map(str, arguments), "--effort", "1"]) == 0
    before = profile.read_bytes()
    assert main([*map(str, arguments), "--error-on-miss", "--force"]) == 0
    assert profile.read_bytes() == before


@pytest.mark.parametrize(("shapes", "remark"), [
    ([], "input x is ?x3x6x5: tuned at 1x3x6x5, needed --shape x=… for other sizes\n"),
    (["--shape", "x=1x3x6x5"], ""),
], ids=["nothing_said", "said"])  # fmt: skip
def test_a_remark_on_free_sizes(bench: Bench, tmp_path: Path, capsys: Capture, shapes: list[str], remark: str) -> None:
    assert main(["tune", str(bench.free), "-o", str(tmp_path / "a.plan"), "--effort", "0", *shapes]) == 0
    assert capsys.readouterr().err == remark


def test_a_time_limit_is_no_proof(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--threads", "1", "--time-limit", "0.000001"]) == 0
    printed = capsys.readouterr().out
    assert "of what there was time to measure" in printed and "optimal" not in printed
