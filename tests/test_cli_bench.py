"""``softneuro bench``: what is run, what is printed, and how it refuses. No speeds: turns are as short as can be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softneuro.bench.engines import PEERS, Engine
from softneuro.bench.turns import Case, Found, measure
from softneuro.cli import bench as command
from softneuro.cli.main import main
from tests.bench_fake import VERSION, fake
from tests.cli_harness import Bench, Capture, picture, refused


@pytest.fixture(autouse=True)
def _no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "peak_gflops", lambda threads: 100.0 * threads)


def plug(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setitem(PEERS, engine.name, engine)  # type: ignore[arg-type]


def bench_json(capsys: Capture, arguments: Sequence[object]) -> dict[str, Any]:
    assert main(["bench", *map(str, arguments), "--json", "--seconds", "0"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def cases(data: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(entry["engine"], entry["threads"], entry["batch"]) for entry in data["results"]]


# ---- what is printed


def test_alone(bench: Bench, capsys: Capture) -> None:
    assert main(["bench", str(bench.plan), "--seconds", "0.05"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[1].startswith("model.plan, threads 1, batch 1, ") and lines[1].endswith(" runs of softneuro")
    assert " ".join(lines[3].split()) == "engine median ms p90 ms p99 ms min ms runs/s"
    assert lines[4].split()[0] == "softneuro" and len(lines[4].split()) == 6
    assert " ".join(lines[6].split()) == "engine import ms load ms first ms peak MB of peak spread"
    assert "random input for x (seed 0)" in captured.err and "times as long" not in captured.out


def test_onnxruntime_beside_us(bench: Bench, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    data = bench_json(capsys, [bench.plan, "--against", "onnxruntime"])
    ours, theirs = data["results"]
    assert cases(data) == [("softneuro", 1, 1), ("onnxruntime", 1, 1)]
    assert data["versions"].keys() == {"softneuro", "onnxruntime"} and theirs["version"] == data["versions"]["onnxruntime"]
    assert ours["best_peer"] == "onnxruntime" and ours["peer_over_ours_median"] > 0
    assert theirs["relative_difference"] < 1e-4 and theirs["same_shapes"]
    assert ours["share_of_peak"] > 0 and ours["macs"] > 0 and ours["peak_gflops"] == 100.0
    assert (data["left_out"], data["interrupted"], data["seconds"]) == ([], False, 0.0)
    assert data["target"] and data["cpu"] and data["cpus"] >= 1


def test_tables_name_cases_and_say_who_is_faster(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plug(monkeypatch, fake(""))
    arguments = ["bench", bench.free_plan, "--against", "fake", "--threads", "1", "--batch", "1,2", "--seconds", "0"]
    assert main(list(map(str, arguments))) == 0
    captured = capsys.readouterr()
    out = captured.out.splitlines()
    assert out[0].endswith(f"fake {VERSION}") and out[1].startswith("free.plan, threads 1, batch 1, 2, 6 runs")
    assert " ".join(out[3].split()) == "engine batch median ms p90 ms p99 ms min ms runs/s samples/s"
    assert out[9].split()[-1] == "differs"
    assert [line.split()[:2] for line in out[4:8]] == [["softneuro", "1"], ["fake", "1"], ["softneuro", "2"], ["fake", "2"]]
    assert [line for line in out if line.startswith("free.plan, threads 1, batch 2: ")]
    assert "outputs of fake differ from ours by 1 of the largest value" in captured.err
    assert captured.err.count("random input for x") == 1


def test_markdown(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plug(monkeypatch, fake(""))
    assert main(["bench", str(bench.plan), "--against", "fake", "--markdown", "--seconds", "0"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [[cell.strip() for cell in row.split("|")[1:3]] for row in (rows[0], *rows[2:])] == [
        ["model", "engine"], ["model.plan", "softneuro"], ["model.plan", "fake"]]  # fmt: skip


def test_quiet_prints_results_only(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plug(monkeypatch, fake("raises"))
    assert main(["bench", str(bench.model), "--against", "fake", "--seconds", "0", "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and "softneuro" in captured.out


def test_json_and_markdown_exclude_each_other(bench: Bench) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", str(bench.plan), "--json", "--markdown"])
    assert end.value.code == 2


# ---- what is run


def test_threads_and_batches_are_all_combined(bench: Bench, capsys: Capture) -> None:
    data = bench_json(capsys, [bench.free_plan, "--threads", "1,2,1", "--batch", "1,3"])
    assert cases(data) == [("softneuro", t, b) for t in (1, 2) for b in (1, 3)]
    assert all(e["samples_per_second"] == pytest.approx(e["batch"] * e["inferences_per_second"]) for e in data["results"])
    assert [e["macs"] for e in data["results"][:2]] == [data["results"][0]["macs"] * n for n in (1, 3)]


def test_other_threads_than_tuned_are_told(bench: Bench, capsys: Capture) -> None:
    assert main(["bench", str(bench.plan), "--threads", "2", "--seconds", "0"]) == 0
    assert "was tuned for threads 1: for other numbers other routines may be faster" in capsys.readouterr().err


def test_a_fixed_batch_is_refused(bench: Bench, capsys: Capture) -> None:
    refused(capsys, ["bench", bench.plan, "--batch", "8"],
            "found batch 8, but the first dimension of input 'x' is fixed at 1, needed the model.onnx in place of the plan, or a "
            "plan of softneuro tune --shape x=8x3x6x5")
    data = bench_json(capsys, [bench.plan, "--batch", "1"])
    assert cases(data) == [("softneuro", 1, 1)]


def test_a_model_runs_with_any_batch(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plug(monkeypatch, fake(""))
    arguments = [str(bench.model), "--against", "fake", "--batch", "1,2", "--threads", "1", "--seconds", "0", "--json"]
    assert main(["bench", *arguments]) == 0
    captured = capsys.readouterr()
    assert "is a model: its layers run with default routines" in captured.err
    assert cases(json.loads(captured.out)) == [(name, 1, batch) for batch in (1, 2) for name in ("softneuro", "fake")]


def test_tune_measures_first(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    limits = []

    def tune(*given: Any, time_limit: float | None, **others: Any) -> Any:
        limits.append((time_limit, others["threads"], dict(others["shapes"])))
        return real(*given, time_limit=0, **others)

    real = command.tune
    monkeypatch.setattr(command, "tune", tune)
    assert main(["bench", str(bench.model), "--tune", "--threads", "1,2", "--seconds", "0"]) == 0
    assert limits == [(None, threads, {"x": (1, 3, 6, 5)}) for threads in (1, 2)]
    assert "default routines" not in capsys.readouterr().err
    refused(capsys, ["bench", bench.plan, "--tune"], "is a plan, --tune needs a model.onnx")


def test_inputs_from_files_and_shapes(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    seen: list[Case] = []

    def record(case: Case, *others: Any) -> None:
        seen.append(case)
        measure(case, *others)

    monkeypatch.setattr(command, "measure", record)
    np.save(tmp_path / "x.npy", picture(2))
    bench_json(capsys, [bench.free_plan, "--input", f"x={tmp_path / 'x.npy'}"])
    bench_json(capsys, [bench.free_plan, "--shape", "x=4x3x6x5", "--seed", "3"])
    np.testing.assert_array_equal(seen[0].feeds["x"], picture(2))
    assert (seen[0].batch, seen[1].batch, seen[1].feeds["x"].shape) == (2, 4, (4, 3, 6, 5))
    refused(capsys, ["bench", bench.free_plan, "--input", tmp_path / "x.npy", "--batch", "2"], "found both --batch and --input")


def test_a_shape_that_does_not_fit(bench: Bench, capsys: Capture) -> None:
    refused(capsys, ["bench", bench.plan, "--shape", "x=1x3x7x5"], "input 'x': found shape (1, 3, 7, 5), needed 1x3x6x5")


# ---- engines


@pytest.mark.parametrize(("text", "words"), [
    ("onnxruntim", "did you mean 'onnxruntime'?"), ("", "needed onnxruntime, openvino, ncnn or all"),
    ("all,ncnn", "needed onnxruntime, openvino, ncnn or all"),
], ids=["misspelt", "empty", "all_and_another"])  # fmt: skip
def test_unknown_engines(bench: Bench, capsys: Capture, text: str, words: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", str(bench.plan), "--against", text])
    assert end.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["--threads=0", "--threads=1,x", "--threads=2000", "--batch=0", "--batch=", "--seconds=-1"])
def test_numbers_that_make_no_sense(bench: Bench, option: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", str(bench.plan), option])
    assert end.value.code == 2


def test_an_engine_that_is_not_installed(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plug(monkeypatch, fake("", packages=("softneuro_absent",)))
    refused(capsys, ["bench", bench.plan, "--against", "fake"],
            "fake: package 'softneuro_absent' is not installed, needed pip install 'softneuro[bench]'", code=4)


def test_all_means_those_installed(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for name in list(PEERS):
        monkeypatch.delitem(PEERS, name)  # type: ignore[arg-type]
    absent = fake("", packages=("softneuro_absent",))
    monkeypatch.setitem(PEERS, "absent", absent)  # type: ignore[arg-type]
    refused(capsys, ["bench", bench.plan, "--against", "all"], "none of the other engines is installed", code=4)
    plug(monkeypatch, fake(""))
    assert main(["bench", str(bench.plan), "--against", "all", "--seconds", "0"]) == 0
    captured = capsys.readouterr()
    assert "absent: not installed, left out" in captured.err and f"fake {VERSION}" in captured.out


@pytest.mark.parametrize(("behaviour", "reason"), [
    ("raises", "fake cannot run the model: ValueError: no layer for that"), ("crashes later", "its process was ended by SIGSEGV"),
])  # fmt: skip
def test_an_engine_that_cannot_run_the_model(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture, behaviour: str,
                                             reason: str) -> None:
    plug(monkeypatch, fake(behaviour))
    assert main(["bench", str(bench.plan), "--against", "fake", "--seconds", "0"]) == 0
    captured = capsys.readouterr()
    assert "left out: fake" in captured.err and reason in captured.err and "Traceback" not in captured.err
    data = bench_json(capsys, [bench.plan, "--against", "fake"])
    assert cases(data) == [("softneuro", 1, 1)] and reason in data["left_out"][0]["reason"]


# ---- the peers' model


def test_the_model_is_looked_for_beside_the_plan(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: Capture) -> None:
    plug(monkeypatch, fake(""))
    (tmp_path / "alone.plan").write_bytes(bench.plan.read_bytes())
    refused(capsys, ["bench", tmp_path / "alone.plan", "--against", "fake"], "needed --model model.onnx")
    absent = tmp_path / "absent.onnx"
    refused(capsys, ["bench", bench.plan, "--against", "fake", "--model", absent], "absent.onnx: is not a file, needed the ONNX")
    data = bench_json(capsys, [tmp_path / "alone.plan", "--against", "fake", "--model", bench.model])
    assert len(data["results"]) == 2


@pytest.mark.parametrize("name", ["absent.plan", "absent.onnx"])
def test_absent_files(tmp_path: Path, capsys: Capture, name: str) -> None:
    refused(capsys, ["bench", tmp_path / name], name)


# ---- interruptions


@pytest.mark.parametrize("form", ["", "--json", "--markdown"])
def test_an_interruption_prints_what_was_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture,
                                                  form: str) -> None:
    def interrupted(case: Case, peers: Sequence[Engine], seconds: float, folder: Path, found: Found, progress: Any) -> None:
        measure(case, peers, seconds, folder, found, progress)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure", interrupted)
    assert main(["bench", str(bench.plan), "--threads", "1,2", "--seconds", "0", *filter(None, [form])]) == 130
    captured = capsys.readouterr()
    assert "softneuro bench: interrupted: what was measured until then is above" in captured.err
    if form == "--json":
        data = json.loads(captured.out)
        assert data["interrupted"] and cases(data) == [("softneuro", 1, 1)]
    else:
        assert "softneuro" in captured.out


def test_an_interruption_before_anything_was_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure", interrupted)
    assert main(["bench", str(bench.plan)]) == 130
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith("softneuro bench: interrupted\n")


def test_a_failure_of_ours_after_results_prints_them(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    from softneuro.bench.process import EngineFailed

    def failing(case: Case, peers: Sequence[Engine], seconds: float, folder: Path, found: Found, progress: Any) -> None:
        measure(case, peers, seconds, folder, found, progress)
        raise EngineFailed("softneuro: its process was ended by SIGKILL")

    monkeypatch.setattr(command, "measure", failing)
    refused(capsys, ["bench", bench.plan, "--threads", "1,2", "--seconds", "0"], "ended by SIGKILL")


def test_help_has_examples(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert command.EXAMPLE in text and "130 interrupted" in text and "spread" in text
    assert max(map(len, (command._DESCRIPTION + command._EPILOG).splitlines())) <= 80
