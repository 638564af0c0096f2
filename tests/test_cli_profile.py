"""``softneuro profile``."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import softneuro
from softneuro.cli.main import main
from softneuro.plan.plan import Measured
from softneuro.tuning.peak import Peak
from tests.cli_harness import Bench, Capture, refused

CONV = "conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)) f32[1,8,6,5] *f32[4,8,1,1] -> f32[1,4,6,5] @1"
COLUMNS = ["layer", "op", "shapes", "routine", "formats", "µs", "share", "GFLOP/s", "of peak"]


@pytest.fixture(autouse=True)
def known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softneuro.report.profiled.measure_peak", lambda target, threads, **_: Peak(threads, 100.0, {}))


def profile(capsys: Capture, *arguments: object) -> list[str]:
    """The lines that the command prints to standard output."""
    assert main(["profile", *map(str, arguments), "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def data(capsys: Capture, *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(profile(capsys, *arguments, "--json")))
    return found


def names(lines: Sequence[str]) -> list[str]:
    return [re.split(r"\s{2,}", line)[0] for line in lines]


# ---- the table


def test_profile_names_every_layer(bench: Bench, capsys: Capture) -> None:
    lines = profile(capsys, bench.plan, "--repeat", "2")
    assert re.split(r"\s{2,}", lines[0].strip()) == COLUMNS
    launched = [layer.name for layer in softneuro.Plan.load(bench.plan).graph.layers if layer.op.name != "view"]
    assert [name for name in names(lines) if name in launched] == launched, "in the order they run"
    assert any("conv+relu" in line and "1x3x6x5 *8x3x3x3 -> 1x8x6x5" in line for line in lines)
    assert "…" not in "".join(lines), "columns must be whole when piped"


def test_profile_sums_up_layers_and_adapts(bench: Bench, capsys: Capture) -> None:
    found = data(capsys, bench.plan, "--repeat", "2")
    by_kind = {group["name"]: group for group in found["subtotals"]}
    rows = [row for row in found["rows"] if row["steps"]]
    for kind, group in by_kind.items():
        members = [row for row in rows if row["kind"] == kind]
        assert group["count"] == len(members) and group["ns"] == pytest.approx(sum(row["ns"] for row in members))
    assert sum(group["share"] for group in by_kind.values()) == pytest.approx(1)
    lines = profile(capsys, bench.plan, "--repeat", "2")
    assert any(name == f"{by_kind['layer']['count']} layers" for name in names(lines))
    assert lines[-2].startswith("total ") and "take no time" in lines[-2]
    assert lines[-1].startswith("whole runs, untimed inside: median ") and "1 thread, peak 100 GFLOP/s" in lines[-1]


def test_json_is_complete(bench: Bench, capsys: Capture) -> None:
    found = data(capsys, bench.plan, "--repeat", "3")
    assert found["plan"] == str(bench.plan) and found["model"] == "model.onnx"
    assert found["threads"] == 1 and found["runs"] == 3 and found["peak_gflops"] == 100.0
    assert found["whole_run"].keys() == {"runs", "median_ns", "minimum_ns", "spread", "noisy"}
    conv = next(row for row in found["rows"] if row["op"] == "conv+relu")
    assert conv["macs"] == 8 * 3 * 3 * 3 * 6 * 5 and conv["gflops"] == pytest.approx(2 * conv["macs"] / conv["ns"])
    assert conv["peak_share"] == pytest.approx(conv["gflops"] / 100)
    assert conv["problem"].startswith("conv(") and conv["problem"].endswith("@1")
    assert found["predicted_ns"] is None and conv["predicted_ns"] is None, "nothing was measured for the plan"


def test_views_are_in_json_but_not_in_the_table(bench: Bench, capsys: Capture) -> None:
    free = [row["name"] for row in data(capsys, bench.plan, "--repeat", "1")["rows"] if not row["steps"]]
    assert free
    assert not set(free) & set(names(profile(capsys, bench.plan, "--repeat", "1")))


def test_top_shows_the_slowest_rows_and_sums_up_the_others(bench: Bench, capsys: Capture) -> None:
    lines = profile(capsys, bench.plan, "--repeat", "1", "--top", "1")
    count = len([row for row in data(capsys, bench.plan, "--repeat", "1")["rows"] if row["steps"]])
    assert names(lines)[2] == f"({count - 1} more)"


@pytest.mark.parametrize(("arguments", "by_time"), [
    ([], False), (["--sort", "order"], False), (["--sort", "time"], True), (["--top", "50"], True),
    (["--top", "50", "--sort", "order"], False),
])  # fmt: skip
def test_rows_are_sorted(arguments: list[str], by_time: bool, bench: Bench, capsys: Capture) -> None:
    lines = profile(capsys, bench.plan, "--repeat", "2", *arguments)
    layers = [layer.name for layer in softneuro.Plan.load(bench.plan).graph.layers]
    shown = {re.split(r"\s{2,}", line)[0]: float(re.split(r"\s{2,}", line)[5]) for line in lines if names([line])[0] in layers}
    if by_time:
        assert list(shown.values()) == sorted(shown.values(), reverse=True)
    else:
        assert list(shown) == [name for name in layers if name in shown]


@pytest.mark.parametrize(("by", "expected"), [("op", {"conv", "matmul"}), ("routine", set())])
def test_rows_are_summed_up_by(by: str, expected: set[str], bench: Bench, capsys: Capture) -> None:
    lines = profile(capsys, bench.plan, "--repeat", "1", "--by", by)
    rows = data(capsys, bench.plan, "--repeat", "1")["rows"]
    expected = expected or {row["routine"] for row in rows if row["steps"]}
    assert lines[0].split() == [by, "rows", "µs", "share"]
    assert expected <= set(names(lines)[1:-2])


def test_a_model_runs_with_default_routines(bench: Bench, capsys: Capture) -> None:
    assert main(["profile", str(bench.model), "--repeat", "1", "--threads", "1"]) == 0
    printed = capsys.readouterr()
    assert "is a model" in printed.err and "conv." in printed.out


def test_another_shape_of_a_free_model(bench: Bench, capsys: Capture) -> None:
    rows = data(capsys, bench.free_plan, "--repeat", "1", "--shape", "x=3x3x6x5")["rows"]
    assert any("3x3x6x5" in row["shapes"] for row in rows)


def test_predictions_stand_beside_what_was_measured(bench: Bench, tmp_path: Path, capsys: Capture,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tuned(bench, tmp_path)
    found = data(capsys, plan, "--repeat", "1")
    assert found["predicted_ns"] == pytest.approx(sum(row["predicted_ns"] or 0 for row in found["rows"]))
    assert "predicted" in profile(capsys, plan, "--repeat", "1")[0]
    monkeypatch.setattr("softneuro.cli.profile._BUSY", 0.0)
    assert main(["profile", str(plan), "--repeat", "1"]) == 0
    assert "tuning again may find a faster plan" in capsys.readouterr().err
    assert main(["profile", str(plan), "--repeat", "1", "--threads", "2", "--json"]) == 0
    printed = capsys.readouterr()
    assert all(row["predicted_ns"] is None for row in json.loads(printed.out)["rows"])
    assert "tuned for 1 thread: predictions are left out" in printed.err


def test_a_noisy_machine_is_named(bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softneuro.report.profiled.NOISY", -1.0)
    assert main(["profile", str(bench.plan), "--repeat", "1"]) == 0
    assert "noisy: the medians of equal runs differ by " in capsys.readouterr().err


# ---- why


def tuned(bench: Bench, folder: Path) -> Path:
    """The model's plan with made-up times: candidate i of every problem takes 1000 + 100 i ns."""
    from dataclasses import replace

    from softneuro.report.explanation import explanations
    from softneuro.runtime.session import Session

    plan = softneuro.Plan.load(bench.plan)
    measured = {
        found.problem: [Measured(row.routine, row.formats, row.schedule, 1000.0 + 100 * i, 0.01)
                        for i, row in enumerate(found.candidates)]
        for found in explanations(Session(plan), plan.provenance.shapes).values()
    }  # fmt: skip
    path = folder / "tuned.plan"
    made = replace(plan.provenance, measured=measured, kept="selected", predicted_ns=5000.0)
    replace(plan, provenance=made).save(path)
    return path


def layer_of(plan: Path, op: str) -> str:
    return next(layer.name for layer in softneuro.Plan.load(plan).graph.layers if layer.op.name == op)


def test_why_lists_candidates_and_refusals(bench: Bench, capsys: Capture) -> None:
    layer = layer_of(bench.plan, "conv")
    lines = profile(capsys, bench.plan, "--why", layer)
    assert lines[0] == layer and lines[1].startswith("conv(")
    head, *rows = [line for line in lines[2:] if not line.startswith(("refused: ", "chosen "))]
    assert head.split()[:3] == ["routine", "formats", "µs"]
    assert sum("<--" in row for row in rows) == 1 and len(rows) > 2
    times = [float(re.split(r"\s{2,}", row)[2]) for row in rows]
    assert times == sorted(times), "measured on the spot, the fastest first"
    assert any(line.startswith("refused: conv.depthwise.f32.chl: found ") for line in lines)


def test_why_without_measuring(bench: Bench, capsys: Capture) -> None:
    found = data(capsys, bench.plan, "--why", layer_of(bench.plan, "conv"), "--no-measure")["explanations"]
    (explanation,) = found
    assert {row["note"] for row in explanation["candidates"]} == {"not measured"}
    assert [row["chosen"] for row in explanation["candidates"]].count(True) == 1
    assert explanation["refused"] and explanation["refused"][0].keys() == {"routine", "reason"}


def test_why_takes_the_times_of_the_plan(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tuned(bench, tmp_path)
    (found,) = data(capsys, plan, "--why", layer_of(plan, "conv"))["explanations"]
    assert [row["ns"] for row in found["candidates"]] == [1000.0 + 100 * i for i in range(len(found["candidates"]))]
    assert not any(row["tied"] for row in found["candidates"])


def test_why_takes_the_times_of_a_profile(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "times.jsonl"
    softneuro.tune(bench.model, threads=1, profile=file)
    layer = layer_of(bench.plan, "matmul")
    (found,) = data(capsys, bench.plan, "--why", layer, "--profile", file, "--no-measure")["explanations"]
    assert all(row["ns"] is not None for row in found["candidates"])


def test_why_with_a_pattern(bench: Bench, capsys: Capture) -> None:
    found = data(capsys, bench.plan, "--why", "*", "--no-measure")["explanations"]
    placed = [row["name"] for row in data(capsys, bench.plan, "--repeat", "1")["rows"]]
    assert sorted(name for explanation in found for name in explanation["layers"]) == sorted(placed)


def test_why_of_an_unknown_layer(bench: Bench, capsys: Capture) -> None:
    name = layer_of(bench.plan, "conv")
    refused(capsys, ["profile", bench.plan, "--why", name[:-1] + "#"], "is not in the plan, needed a name or pattern of")
    assert main(["profile", str(bench.plan), "--why", name[:-1] + "#"]) == 3
    assert repr(name) in capsys.readouterr().err


def test_why_with_a_profile_that_is_not_there(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, ["profile", bench.plan, "--why", "*", "--profile", tmp_path / "none"], "does not exist, needed a file of")


# ---- problems


def test_problem_needs_no_plan(capsys: Capture) -> None:
    lines = profile(capsys, "--problem", CONV)
    assert lines[0] == CONV and not any("<--" in line for line in lines)
    (found,) = data(capsys, "--problem", CONV, "--no-measure")["explanations"]
    assert found["problem"] == CONV and found["layers"] == [] and len(found["candidates"]) > 2


@pytest.mark.parametrize(("text", "message"), [
    ("", "op(...) input types -> output types @threads"),
    ("convo() f32[1] -> f32[1] @1", "found the op 'convo', needed conv"),
    (CONV.replace("strides", "stride"), "has no parameter 'stride', needed one of strides"),
    (CONV.replace("*f32[4,8,1,1]", "*f33[4,8,1,1]"), "f33"),
    (CONV.replace("-> f32[1,4,6,5]", "-> f32[1,4,6,6]"), "found outputs f32[1,4,6,6], needed f32[1,4,6,5]"),
    (CONV.replace("@1", "@0"), "found 0 threads"),
])  # fmt: skip
def test_a_bad_problem_gets_one_sentence(text: str, message: str, capsys: Capture) -> None:
    refused(capsys, ["profile", "--problem", text], message)
    assert main(["profile", "--problem", text]) == 3
    assert "the form is: conv(" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "needed a plan or model, or --problem"), (["model.plan", "--problem", CONV], "found both a plan and --problem"),
    (["model.plan", "--why", "*", "--plot", "a.png"], "with a file of the table"),
    (["model.plan", "--sort", "size"], "invalid choice"), (["model.plan", "--top", "0"], "needed 1 or more"),
])  # fmt: skip
def test_usage(arguments: list[str], message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["profile", *arguments])
    assert caught.value.code == 2 and message in capsys.readouterr().err


# ---- files


def test_plot_trace_and_html_are_written(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    files = plot, trace, html = tmp_path / "a.svg", tmp_path / "a.json", tmp_path / "a.html"
    options = ["--plot", str(plot), "--trace", str(trace), "--html", str(html)]
    assert main(["profile", str(bench.plan), "--repeat", "1", *options]) == 0
    printed = capsys.readouterr()
    assert [line for line in printed.err.splitlines() if "written" in line] == [f"written: {path}" for path in files]
    assert printed.out.startswith("layer")
    layer = layer_of(bench.plan, "conv")
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    assert any(event.get("name") == layer for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"])
    assert layer in html.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--plot", "--trace", "--html"])
def test_files_are_not_overwritten(option: str, bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "there.png"
    path.write_text("kept")
    refused(capsys, ["profile", bench.plan, option, path], "exists already, needed --force")
    assert path.read_text() == "kept" and capsys.readouterr().out == ""
    assert main(["profile", str(bench.plan), "--repeat", "1", option, str(path), "--force"]) == 0
    assert path.read_bytes() != b"kept"


def test_plot_of_an_unknown_kind(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    message = "found the suffix '.bmp', needed one of .png, .svg, .pdf"
    refused(capsys, ["profile", bench.plan, "--plot", tmp_path / "a.bmp"], message)


def test_plot_without_matplotlib(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    refused(capsys, ["profile", bench.plan, "--plot", tmp_path / "a.png"], "pip install 'softneuro[plot]'", code=4)
