"""Rows of a profile, their sums, whole runs and the chart: made-up times, no clock."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import softneuro
from softneuro.errors import InputError
from softneuro.plan.plan import Measured, Provenance
from softneuro.report import profiled as module
from softneuro.report.plot import check_plot, plot_rows
from softneuro.report.profiled import Profiled, WholeRuns, profiled, summed_up, time_runs
from softneuro.report.rows import LayerRow, grouped, is_free, layer_rows, predicted_total, sum_ns
from softneuro.runtime.session import Session
from softneuro.tuning.peak import Peak
from tests.cli_harness import Bench, picture


def row(name: str, ns: float, *, kind: str = "layer", op: str = "conv", predicted: float | None = None, macs: int = 0,
        steps: int = 1) -> LayerRow:
    return LayerRow(name, kind, op, "1x2 -> 1x2", "f32[1,2]", f"{op.partition('+')[0]}.direct.f32.chf", {"mr": 2},
                    "f32:chf>f32:chf", ns, ns / 1000, predicted, macs, steps)  # fmt: skip


ROWS = (
    row("first", 500.0, op="conv+relu", predicted=450.0, macs=25_000),
    row("adapt x to f32:chl", 100.0, kind="adapt", op="adapt"),
    row("view", 0.0, op="view", steps=0),
    row("second", 300.0, predicted=310.0, macs=10_000),
    row("gru", 100.0, kind="host", op="recurrent", predicted=90.0),
)
WHOLE = WholeRuns(8, 1010.0, 990.0, 0.02)
FOUND = Profiled(ROWS, WHOLE, 8, 2, 80.0, "a machine", "avx2", Provenance(model="m.onnx", predicted_ns=950.0))


# ---- rows


def test_rates_count_a_multiply_add_twice() -> None:
    first = ROWS[0]
    assert first.gflops == 100.0 and first.peak_share(80.0) == 1.25, "Winograd may exceed the peak"
    assert ROWS[1].gflops is None and ROWS[1].peak_share(80.0) is None and first.peak_share(0.0) is None


@pytest.mark.parametrize(("index", "family"), [(0, "conv"), (1, "adapt"), (2, "view"), (4, "host")])
def test_families(index: int, family: str) -> None:
    assert ROWS[index].family == family


def test_sums() -> None:
    assert sum_ns(ROWS) == 1000.0 and sum_ns(ROWS, "adapt") == 100.0
    assert [is_free(found) for found in ROWS] == [False, False, True, False, False]
    assert predicted_total(ROWS) is None and predicted_total([ROWS[0], ROWS[2], ROWS[3]]) == 760.0


def test_groups_are_ranked_by_time() -> None:
    groups = grouped(ROWS, lambda found: found.family)
    assert [(group.name, group.count, group.ns) for group in groups][:1] == [("conv", 2, 800.0)]
    assert groups[0].predicted_ns == 760.0 and groups[0].share == pytest.approx(0.8)


def test_rows_of_a_plan(bench: Bench) -> None:
    session = Session(softneuro.Plan.load(bench.plan))
    rows = layer_rows(session, {"x": picture()}, 2)
    assert [found.name for found in rows] == [item.name for item in session.linked({"x": (1, 3, 6, 5)}).program.placed]
    first = next(found for found in rows if found.op == "conv+relu")
    assert first.shapes == "1x3x6x5 *8x3x3x3 -> 1x8x6x5", "without the bias"
    assert first.output == "f32[1,8,6,5]" and first.kind == "layer" and first.macs == 8 * 27 * 30
    assert sum(found.share for found in rows) == pytest.approx(1)
    assert {found.kind for found in rows} == {"layer", "adapt"}


@pytest.mark.parametrize(("shape", "threads", "expected"), [
    ((1, 3, 6, 5), 1, True), ((2, 3, 6, 5), 1, False), ((1, 3, 6, 5), 2, False),
])  # fmt: skip
def test_predictions_are_those_of_the_same_run(shape: tuple[int, ...], threads: int, expected: bool, bench: Bench) -> None:
    plan = softneuro.Plan.load(bench.free_plan)
    layer_ns = {layer.name: 5.0 for layer in plan.graph.layers}
    session = Session(replace(plan, provenance=replace(plan.provenance, layer_ns=layer_ns)), threads)
    rows = layer_rows(session, {"x": np.zeros(shape, np.float32)}, 1)
    assert all((found.predicted_ns == 5.0) is expected for found in rows if found.kind == "layer")


def test_recorded_candidates_predict_adapts_too(bench: Bench) -> None:
    plan = softneuro.Plan.load(bench.plan)
    rows = layer_rows(Session(plan), {"x": picture()}, 1)
    record = {found.problem: [Measured(found.routine, found.formats, found.schedule, 9.0)] for found in rows}
    again = layer_rows(Session(replace(plan, provenance=replace(plan.provenance, measured=record))), {"x": picture()}, 1)
    assert [found.predicted_ns for found in again] == [9.0] * len(rows) and any(found.kind == "adapt" for found in again)


# ---- whole runs


def test_runs_are_timed_after_warming_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WARM_NS", 100)
    ticks = itertools.count(0, 30)
    calls: list[int] = []
    assert time_runs(lambda: calls.append(0), 3, lambda: next(ticks)) == [30, 30, 30]
    assert len(calls) == 4 + 3


def test_whole_runs_are_summed_up_by_blocks() -> None:
    found = summed_up([[10, 12, 14], [20, 22, 24]])
    assert (found.runs, found.median_ns, found.minimum_ns) == (6, 17.0, 10.0)
    assert found.spread == pytest.approx(10 / 17) and found.is_noisy
    assert not summed_up([[100, 101], [100, 102]]).is_noisy


def test_a_plan_is_profiled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_peak", lambda target, threads, levels: Peak(threads, 50.0, {}))
    found = profiled(Session(softneuro.Plan.load(bench.plan)), {"x": picture()}, 4)
    assert (found.repeat, found.threads, found.peak_gflops, found.whole.runs) == (4, 1, 50.0, 12)
    assert found.made.model == "model.onnx" and found.total_ns > 0


@pytest.mark.parametrize(("ns", "runs"), [(1_000_000, 500), (10_000_000, 100), (900_000_000, 5), (0, 500)])
def test_runs_take_about_a_second(ns: int, runs: int) -> None:
    assert module._runs_of_a_second(ns) == runs


def test_totals_and_subtotals() -> None:
    assert FOUND.total_ns == 1000.0
    assert [(group.name, group.count, group.ns) for group in FOUND.subtotals] == [
        ("layer", 2, 800.0), ("adapt", 1, 100.0), ("host", 1, 100.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [
    (ROWS, 950.0), (ROWS[2:], 400.0), ((*ROWS, row("new", 1.0)), None),
])  # fmt: skip
def test_the_prediction_is_the_plans_where_adapts_have_none(rows: tuple[LayerRow, ...], expected: float | None) -> None:
    assert replace(FOUND, rows=rows).predicted_ns == expected


def test_data_is_json() -> None:
    found = json.loads(json.dumps(FOUND.data(), allow_nan=False))
    assert found["rows"][0]["gflops"] == 100.0 and found["rows"][1]["gflops"] is None
    assert found["whole_run"] == {"runs": 8, "median_ns": 1010.0, "minimum_ns": 990.0, "spread": 0.02, "noisy": False}
    assert found["machine"] == "a machine" and found["predicted_ns"] == 950.0


# ---- the chart


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_the_chart_is_of_the_kind_of_its_name(suffix: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    plot_rows(FOUND, ROWS, path)
    assert path.read_bytes().startswith(start)


def test_the_chart_names_rows_kinds_and_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    path = tmp_path / "a.svg"
    plot_rows(FOUND, [found for found in ROWS if not is_free(found)], path)
    text = path.read_text(encoding="utf-8")
    names = ["first", "adapt x to f32:chl", "conv.direct.f32.chf", "host"]
    words = ["50.0%", "predicted by tuning", "m.onnx: 0.001 ms", "2 threads"]
    assert [word for word in (*names, *words) if word not in text] == []


def test_a_chart_of_nothing(tmp_path: Path) -> None:
    plot_rows(replace(FOUND, rows=()), [], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.parametrize("name", ["a.bmp", "a", "a.html"])
def test_other_kinds_of_files_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"needed one of .png, .svg, .pdf"):
        check_plot(Path(name))


@pytest.mark.parametrize("name", ["a$b_{$", "$x^2$", "层", "a" * 200, r"\frac"])
def test_names_are_drawn_as_they_are(name: str, tmp_path: Path) -> None:
    plot_rows(replace(FOUND, made=Provenance(model=name)), [replace(ROWS[0], name=name)], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0
