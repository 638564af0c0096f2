"""``softneuro inspect``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import helper

import softneuro
from softneuro.cli.amounts import bytes_text, count_text, counted, share_text
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, refused
from tests.test_inspection import save


def shown(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert main(["inspect", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_model(bench: Bench, capsys: Capture) -> None:
    printed = shown(capsys, bench.model)
    assert f"{bench.model}: an ONNX model" in printed
    assert "inputs       x  f32[1,3,6,5]\n" in printed and "outputs      y  f32[1,12]\n" in printed
    assert "operator sets ai.onnx 17" in printed
    assert "parameters   1,708 in 6.7 KiB\n" in printed
    assert "17.8 kFLOP (8.88 k multiply-adds" in printed
    assert "nodes        6: Conv 2, Relu 2, Flatten 1, Gemm 1\n" in printed
    conv = next(line.split() for line in printed.splitlines() if line.startswith("conv "))
    assert conv == ["conv", "2", "2", "7.44", "k", "83.8%", "256"]
    assert "…" not in printed, "columns must be whole when piped"


def test_plan(bench: Bench, capsys: Capture) -> None:
    printed = shown(capsys, bench.plan)
    assert ": a plan, " in printed and "tuned        model.onnx (SHA-256 " in printed
    assert "shapes       x=1x3x6x5\n" in printed and "nothing was measured" in printed
    assert f"softneuro {softneuro.__version__} (python " in printed
    assert any(line.startswith("conv.") for line in printed.splitlines()), "routines are listed"


@pytest.mark.parametrize("which", ["model", "plan"])
def test_layers(bench: Bench, capsys: Capture, which: str) -> None:
    printed = shown(capsys, getattr(bench, which), "--layers")
    head = next(line for line in printed.splitlines() if line.startswith("layer "))
    assert head.split()[:6] == ["layer", "op", "inputs", "outputs", "parameters", "multiply-adds"]
    for layer in softneuro.Plan.load(bench.plan).graph.layers:
        line = next(line for line in printed.splitlines() if line.startswith(f"{layer.name} "))
        assert layer.op.name in line and "f32[" in line
    assert "6,480" in printed, "multiply-adds of the first convolution"


def test_json_of_a_model(bench: Bench, capsys: Capture) -> None:
    data = json.loads(shown(capsys, bench.free, "--json", "--shape", "x=2x3x6x5", "--threads", "1"))
    assert (data["kind"], data["threads"], data["flops"]) == ("model", 1, 2 * data["macs"])
    assert data["inputs"] == [{"name": "x", "dtype": "f32", "declared": ["n", 3, 6, 5], "shape": [2, 3, 6, 5]}]
    assert data["parameters"]["f32"] == {"count": 1708, "bytes": 6832}
    assert data["ops"][0]["op"] == "conv" and data["provenance"] is None
    assert {"name", "op", "inputs", "outputs", "parameters", "macs", "routine", "native"} <= data["layers"][0].keys()


def test_json_of_a_plan(bench: Bench, capsys: Capture) -> None:
    data = json.loads(shown(capsys, bench.plan, "--json"))
    assert data["provenance"]["model"] == "model.onnx" and data["provenance"]["shapes"] == {"x": [1, 3, 6, 5]}
    assert data["file_bytes"] == bench.plan.stat().st_size and data["arena_bytes"] > 0
    assert sum(row["layers"] for row in data["routines"]) == len(data["layers"])


def test_free_dimensions_are_a_remark(bench: Bench, capsys: Capture) -> None:
    main(["inspect", str(bench.free)])
    assert "free dimensions taken as x=1x3x6x5" in capsys.readouterr().err
    main(["inspect", str(bench.free), "-q"])
    assert capsys.readouterr().err == ""


def test_unsupported_operators(tmp_path: Path, capsys: Capture) -> None:
    nodes = [helper.make_node("A", ["x"], ["a"], "[one]", domain="d"), helper.make_node("B", ["a"], ["y"], "two", domain="d")]
    path = save(tmp_path / "a.onnx", nodes, domains={"d": 1})
    printed = shown(capsys, path)
    assert "cannot be tuned: 2 nodes cannot run (d.A, d.B)" in printed
    assert "[one]" in printed and "two" in printed and "no reference implementation" in printed
    assert [row["layer"] for row in json.loads(shown(capsys, path, "--json"))["refused"]] == ["[one]", "two"]


def test_sizes_that_do_not_fit_point_to_shape(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path / "a.onnx", [helper.make_node("MatMul", ["x", "x"], ["y"])], shape=("n", 2))
    printed = shown(capsys, path)
    assert "cannot be tuned as it is: layer" in printed and "see --shape" in printed
    assert "see --shape" not in shown(capsys, path, "--shape", "x=2x2")


def test_host_layers(tmp_path: Path, capsys: Capture) -> None:
    nodes = [helper.make_node("Det", ["x"], ["d0"], "det0"), helper.make_node("Relu", ["d0"], ["y"])]
    path = save(tmp_path / "a.onnx", nodes, shape=(3, 3))
    printed = shown(capsys, path)
    assert "on the host's reference in numpy (1 layer):" in printed
    assert "  det0 (onnx_op Det): no routine computes this op\n" in printed


def test_many_host_layers_are_cut(tmp_path: Path, capsys: Capture) -> None:
    dets = [helper.make_node("Det", ["x" if i == 0 else f"e{i}"], [f"d{i}"], f"det{i}") for i in range(12)]
    wide = [helper.make_node("Mul", ["x", f"d{i}"], [f"e{i + 1}" if i < 11 else "y"]) for i in range(12)]
    path = save(tmp_path / "a.onnx", [n for pair in zip(dets, wide, strict=True) for n in pair], shape=(3, 3))
    assert "  and 2 more (-v lists all)" in shown(capsys, path)
    assert "det11" in shown(capsys, path, "-v")


# ---- --against


def test_same_plan(bench: Bench, capsys: Capture) -> None:
    printed = shown(capsys, bench.plan, "--against", bench.plan)
    assert printed.splitlines()[-1] == "the plans run the same"
    data = json.loads(shown(capsys, bench.plan, "--against", bench.plan, "--json"))
    assert (data["differ"], data["fields"], data["layers"]) == (False, [], [])


def test_other_plan(bench: Bench, capsys: Capture) -> None:
    printed = shown(capsys, bench.plan, "--against", bench.other_plan, code=1)
    assert "model_sha256" in printed and printed.splitlines()[-1] == "the plans differ"
    data = json.loads(shown(capsys, bench.plan, "--against", bench.free_plan, "--json", code=1))
    assert data["differ"] and {"inputs", "model"} <= {row["name"] for row in data["fields"]}


def test_other_layers(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    model = save(tmp_path / "a.onnx", [helper.make_node("Softmax", ["x"], ["y"], "only")], shape=(1, 3, 6, 5))
    softneuro.tune(model, threads=1, time_limit=0).save(tmp_path / "a.plan")
    printed = shown(capsys, bench.plan, "--against", tmp_path / "a.plan", code=1)
    row = next(line.split() for line in printed.splitlines() if line.startswith("only"))
    assert row[1] == "-" and row[2].startswith("softmax.") and row[-2:] == ["-", "-"]


def test_against_needs_plans(bench: Bench, capsys: Capture) -> None:
    refused(capsys, ["inspect", bench.plan, "--against", bench.model], "needed two plans")
    refused(capsys, ["inspect", bench.model, "--against", bench.plan], "needed two plans")


# ---- refusals


def test_files_that_are_neither(tmp_path: Path, bench: Bench, capsys: Capture) -> None:
    (tmp_path / "a.plan").write_bytes(bench.plan.read_bytes()[:-1])
    (tmp_path / "a.onnx").write_text("hello")
    refused(capsys, ["inspect", tmp_path / "a.plan"], "is damaged")
    refused(capsys, ["inspect", tmp_path / "a.onnx"], "no ONNX model")
    refused(capsys, ["inspect", tmp_path / "absent.onnx"], "cannot be read")
    refused(capsys, ["inspect", bench.model, "--shape", "z=1x2"], "no such input")
    refused(capsys, ["inspect", bench.plan, "--shape", "x=2x3x6x5"], "needed 1x3x6x5")


# ---- amounts


@pytest.mark.parametrize(("count", "text"), [
    (0, "0"), (1, "1"), (999, "999"), (1000, "1 k"), (1280, "1.28 k"), (99_940, "99.9 k"), (301_000_000, "301 M"),
    (4_090_000_000, "4.09 G"), (2.5e15, "2 P"), (999_600, "1 M"),
])  # fmt: skip
def test_counts(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(("nbytes", "text"), [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1536, "1.5 KiB"),
                                              (1 << 30, "1.0 GiB"), (5 << 40, "5.0 TiB")])  # fmt: skip
def test_bytes(nbytes: int, text: str) -> None:
    assert bytes_text(nbytes) == text


def test_shares_and_plurals() -> None:
    assert (share_text(1, 4), share_text(1, 0), counted(1, "layer"), counted(0, "layer")) == ("25.0%", "-", "1 layer", "0 layers")
