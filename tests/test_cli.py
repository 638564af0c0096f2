"""The command line as users meet it: files written, exit codes, and one sentence for everything that is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import softneuro
from softneuro import reference
from softneuro.cli.main import COMMANDS, main
from softneuro.importer.model import import_model

Capture = pytest.CaptureFixture[str]


def write_model(path: Path, *, batch: int | str = 1, seed: int = 0) -> Path:
    """conv, relu, conv, relu, flatten, gemm: ``x`` batch x 3 x 6 x 5 to ``y`` batch x 12."""
    rng = np.random.default_rng(seed)
    weights = {
        "w0": rng.standard_normal((8, 3, 3, 3)), "b0": rng.standard_normal(8),
        "w1": rng.standard_normal((4, 8, 1, 1)), "w2": rng.standard_normal((12, 120)), "b2": rng.standard_normal(12),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Flatten", ["r1"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["y"], transB=1),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 3, 6, 5])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, 12])]
    initializers = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@dataclass(frozen=True)
class Bench:
    """Models and the plans made of them: free has a free batch, other the same layers with other weights."""

    model: Path
    plan: Path
    free: Path
    free_plan: Path
    other_plan: Path


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("cli")
    model, free = write_model(folder / "model.onnx"), write_model(folder / "free.onnx", batch="n")
    other = write_model(folder / "other.onnx", seed=1)
    plans = []
    for path in (model, free, other):
        plan = path.with_suffix(".plan")
        softneuro.tune(path, threads=1, time_limit=0).save(plan)
        plans.append(plan)
    return Bench(model, plans[0], free, plans[1], plans[2])


def picture(batch: int = 1) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((batch, 3, 6, 5)).astype(np.float32)


def refused(capsys: Capture, arguments: Sequence[object], message: str, code: int = 3) -> None:
    """The command fails with the code and one line on standard error that holds the message."""
    assert main([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith(f"softneuro {arguments[0]}: ")
    assert printed.err.count("\n") == 1 and printed.err.endswith("\n")
    assert "Traceback" not in printed.err


# ---- what goes right


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


@pytest.mark.parametrize("name", ["x.npy", "all.npz", "named=x.npy"])
def test_run_reads_files_and_writes_outputs(bench: Bench, tmp_path: Path, capsys: Capture, name: str) -> None:
    np.save(tmp_path / "x.npy", picture())
    np.savez(tmp_path / "all.npz", x=picture())
    given = f"x={tmp_path / 'x.npy'}" if name.startswith("named") else str(tmp_path / name)
    assert main(["run", str(bench.plan), "--input", given, "--output", str(tmp_path / "results")]) == 0
    printed = capsys.readouterr().out
    assert "y: float32 (1, 12)" in printed and "random" not in printed
    found = np.load(tmp_path / "results" / "y.npy")
    np.testing.assert_array_equal(found, softneuro.Session(bench.plan).run({"x": picture()})["y"])


def test_run_makes_random_input_and_says_so(bench: Bench, capsys: Capture) -> None:
    assert main(["run", str(bench.free_plan), "--shape", "x=3x3x6x5", "--repeat", "4", "--seed", "7"]) == 0
    printed = capsys.readouterr().out
    assert "random input for x (seed 7)" in printed
    assert "y: float32 (3, 12)" in printed
    assert "median" in printed and "minimum" in printed


def test_profile_names_every_layer(bench: Bench, capsys: Capture) -> None:
    assert main(["profile", str(bench.plan), "--repeat", "2"]) == 0
    printed = capsys.readouterr().out
    layers = [layer.name for layer in softneuro.Plan.load(bench.plan).graph.layers]
    assert all(any(line.startswith(name) for line in printed.splitlines()) for name in layers)
    assert "conv." in printed and "matmul." in printed
    assert "…" not in printed, "columns must be whole when piped"
    assert printed.splitlines()[-1].startswith("total ")


def test_profile_shows_the_slowest_rows(bench: Bench, capsys: Capture) -> None:
    assert main(["profile", str(bench.plan), "--repeat", "1", "--top", "1"]) == 0
    head, row, total = capsys.readouterr().out.splitlines()
    assert head.startswith("layer") and total.startswith("total ")
    assert row.strip()


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
    assert printed.err == ""


def test_names_with_brackets_are_printed_whole(tmp_path: Path, capsys: Capture) -> None:
    proto = onnx.load(write_model(tmp_path / "a.onnx"))
    proto.graph.node[-1].output[0] = proto.graph.output[0].name = "[red]y[/red]"
    onnx.save(proto, tmp_path / "a.onnx")
    softneuro.tune(tmp_path / "a.onnx", threads=1, time_limit=0).save(tmp_path / "a.plan")
    assert main(["run", str(tmp_path / "a.plan"), "--output", str(tmp_path)]) == 0
    assert main(["compare", str(tmp_path / "a.plan"), "--against", str(tmp_path / "a.plan")]) == 0
    assert capsys.readouterr().out.count("[red]y[/red]") == 2
    assert (tmp_path / "_red_y__red_.npy").exists()


# ---- no overwriting


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


def test_run_does_not_overwrite_without_force(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "y.npy").write_text("precious")
    arguments = ["run", bench.plan, "--output", tmp_path]
    refused(capsys, arguments, "exists already, needed --force to overwrite it")
    assert (tmp_path / "y.npy").read_text() == "precious"
    assert main([*map(str, arguments), "--force"]) == 0
    assert np.load(tmp_path / "y.npy").shape == (1, 12)


@pytest.mark.parametrize(("place", "message"), [
    ("absent/a.plan", "its folder does not exist or cannot be written"),
    (".", "is a folder, needed the name of a file"),
])  # fmt: skip
def test_plan_file_that_cannot_be_written(bench: Bench, tmp_path: Path, capsys: Capture, place: str, message: str) -> None:
    refused(capsys, ["tune", bench.model, "-o", tmp_path / place, "--time-limit", "0", "--force"], message)


# ---- wrong input


@pytest.mark.parametrize(("array", "name", "message"), [
    (np.zeros((1, 3, 6, 5), np.float32), "z", "input 'z' is not one of the model's: needed 'x'"),
    (np.zeros((1, 3, 6, 4), np.float32), "x", "input 'x': found shape (1, 3, 6, 4), needed 1x3x6x5"),
    (np.zeros((1, 3, 6), np.float32), "x", "input 'x': found shape (1, 3, 6) of rank 3, needed 1x3x6x5"),
    (np.zeros((1, 3, 6, 5), np.float64), "x", "input 'x': found data type float64, needed float32"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "profile", "compare"])
def test_arrays_that_do_not_fit(bench: Bench, tmp_path: Path, capsys: Capture, command: str, array: np.ndarray, name: str,
                                message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    extra = ["--against", bench.plan] if command == "compare" else []
    refused(capsys, [command, bench.plan, "--input", f"{name}={tmp_path / 'a.npy'}", *extra], message)


@pytest.mark.parametrize(("content", "message"), [
    (None, "cannot be read: No such file or directory"),
    (b"", "is not an array file of numpy (.npy or .npz)"),
    (b"hello", "is not an array file of numpy (.npy or .npz)"),
    (b"PK\x03\x04 torn", "is not an array file of numpy (.npy or .npz)"),
    (b"\x93NUMPY\x01\x00\x10\x00 torn", "is not an array file of numpy (.npy or .npz)"),
], ids=["missing", "empty", "text", "torn_npz", "torn_npy"])  # fmt: skip
def test_files_that_are_no_arrays(bench: Bench, tmp_path: Path, capsys: Capture, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.npy").write_bytes(content)
    refused(capsys, ["run", bench.plan, "--input", f"x={tmp_path / 'a.npy'}"], message)


def test_pickled_arrays_are_not_opened(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy"], "is not an array file of numpy")


def test_named_arrays_take_no_name(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "a.npz", x=picture())
    refused(capsys, ["run", bench.plan, "--input", f"x={tmp_path / 'a.npz'}"], "holds named arrays")


@pytest.mark.parametrize(("text", "message"), [
    ("z=1x3x6x5", "shape of 'z': is not one of the model's inputs: needed 'x'"),
    ("x=1x3x6", "input 'x': found shape (1, 3, 6) of rank 3, needed 1x3x6x5"),
    ("x=2x3x6x5", "input 'x': found shape (2, 3, 6, 5), needed 1x3x6x5"),
])  # fmt: skip
def test_shapes_that_do_not_fit(bench: Bench, capsys: Capture, text: str, message: str) -> None:
    refused(capsys, ["run", bench.plan, "--shape", text], message)


def test_an_input_is_a_file_or_a_shape(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", picture())
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy", "--shape", "x=1x3x6x5"], "found both a file and a shape")


@pytest.mark.parametrize(("shapes", "message"), [
    (["z=1x3x6x5"], "'z'"),
    (["x=1x3x6"], "'x'"),
    (["x=1x4x6x5"], "4"),
])  # fmt: skip
def test_tune_with_shapes_that_do_not_fit(bench: Bench, tmp_path: Path, capsys: Capture, shapes: list[str], message: str) -> None:
    options = [f"--shape={text}" for text in shapes]
    refused(capsys, ["tune", bench.model, "-o", tmp_path / "a.plan", "--time-limit", "0", *options], message)
    assert not (tmp_path / "a.plan").exists()


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


# ---- damaged plans


def _truncated(plan: bytes) -> bytes:
    return plan[: len(plan) // 2]


def _flipped(plan: bytes) -> bytes:
    return plan[:-100] + bytes([plan[-100] ^ 4]) + plan[-99:]


@pytest.mark.parametrize(("change", "message"), [
    (_truncated, "is truncated"),
    (_flipped, "is damaged: its contents do not match its digest"),
    (lambda plan: plan[:10], "found 10 bytes, needed a softneuro plan file"),
    (lambda plan: b"", "found 0 bytes, needed a softneuro plan file"),
    (lambda plan: b"\x89PNG\r\n" + bytes(500), "is not a softneuro plan file"),
    (None, "cannot be read: No such file or directory"),
], ids=["truncated", "bit_flipped", "head_only", "empty", "foreign", "missing"])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "profile", "compare"])
def test_damaged_plans(bench: Bench, tmp_path: Path, capsys: Capture, command: str, change: Callable[[bytes], bytes] | None,
                       message: str) -> None:
    plan = tmp_path / "a.plan"
    if change is not None:
        plan.write_bytes(change(bench.plan.read_bytes()))
    if change is _truncated:
        message = "is "  # the digest or the header tells, depending on where it ends
    refused(capsys, [command, plan, *(["--against", plan] if command == "compare" else [])], message)


# ---- damaged models


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


# ---- the parser


def test_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"softneuro {softneuro.__version__}\n"


def test_help_lists_the_commands_with_examples(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.EXAMPLE}\n" in printed
        assert f"    {command.EXAMPLE.split()[1]} " in printed
    assert "exit codes" in printed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.EXAMPLE.split()[1])
def test_help_of_a_command_has_its_example(capsys: Capture, command: object) -> None:
    example: str = command.EXAMPLE  # type: ignore[attr-defined]
    with pytest.raises(SystemExit) as caught:
        main([example.split()[1], "--help"])
    assert caught.value.code == 0
    assert example in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("line", [
    "", "frobnicate", "tune", "tune model.onnx", "run", "run a.plan --threads 0", "run a.plan --threads 5000",
    "run a.plan --repeat many", "run a.plan --seed -1", "run a.plan --shape x", "run a.plan --shape x=1x-2",
    "run a.plan --shape x=1000000x1000000x1000000", "tune a.onnx -o a.plan --time-limit -1",
    "tune a.onnx -o a.plan --time-limit nan", "run a.plan --unknown",
])  # fmt: skip
def test_usage_errors(capsys: Capture, line: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("usage: softneuro")


def test_debug_shows_where(tmp_path: Path) -> None:
    with pytest.raises(softneuro.errors.PlanError):
        main(["--debug", "run", str(tmp_path / "absent.plan")])


def test_interruption_says_how_to_go_on(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softneuro.cli.tune.tune", interrupt)
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan")]) == 130
    assert "run the same command to go on" in capsys.readouterr().err


def test_too_little_memory_is_not_bad_input(bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*args: object) -> None:
        raise MemoryError("needed 1 TB\nat once")

    monkeypatch.setattr("softneuro.cli.run.Session", starve)
    refused(capsys, ["run", bench.plan], "needed 1 TB at once", code=4)


def test_a_copied_plan_runs_elsewhere(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(bench.plan, tmp_path / "b.plan")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "b.plan"]) == 0
