"""The benchmark tools' arithmetic and tables, the worker's protocol, and that the peak kernels compute. No speeds."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of
from oracle import runnable_targets

from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.cpu import Cpu
from softneuro.problem import Problem
from softneuro.runtime.team import Team
from softneuro.tuning.measure import Effort
from softneuro.tuning.peak import LEVELS, Peak, working_sets
from softneuro.tuning.profile import Measurement
from tools import bench_models, bench_routines, bench_worker, peak
from tools.bench_process import Engine, EngineFailed
from tools.bench_statistics import Result, as_json, markdown, percentile, ratios, speed_table, warnings

TARGETS = runnable_targets()


# ---- statistics


@pytest.mark.parametrize(("times", "part", "expected"), [
    ([7], 0.9, 7), ([1, 2], 0.5, 1.5), (range(11), 0.9, 9), ([3, 1, 2], 0.0, 1), ([3, 1, 2], 1.0, 3), ([10, 20], 0.9, 19),
], ids=["single", "between", "exact", "minimum", "maximum", "linear"])  # fmt: skip
def test_percentile(times: list[int], part: float, expected: float) -> None:
    assert percentile(times, part) == pytest.approx(expected)


def result(engine: str, rounds: list[list[int]], **other: object) -> Result:
    return Result("model", 1, engine, "1.0", rounds, **other)  # type: ignore[arg-type]


def test_result_sums_up_all_rounds() -> None:
    found = result("softneuro", [[1, 2, 3], [4, 5], [2]], macs=6, peak_gflops=8.0)
    assert (found.median_ns, found.minimum_ns) == (2.5, 1)
    assert found.p90_ns == pytest.approx(4.5)
    assert found.spread == (4.5 - 2) / 2  # medians of the rounds: 2, 4.5, 2
    assert found.share_of_peak == pytest.approx(2 * 6 / 2.5 / 8)
    assert result("softneuro", [[1]]).share_of_peak is None


def test_ratios_hold_the_best_peer_against_us() -> None:
    group = [result("softneuro", [[10, 20, 30]]), result("onnxruntime", [[30, 40, 50]]), result("openvino", [[20, 60, 60]])]
    assert ratios(group) == (40 / 20, 20 / 10)
    assert ratios(group[:1]) is None and ratios(group[1:]) is None


def test_noise_is_told() -> None:
    calm, noisy = result("softneuro", [[100], [110], [115]]), result("openvino", [[100], [110], [120]])
    (sentence,) = warnings([calm, noisy])
    assert "openvino" in sentence and "spread over 18 %" in sentence


# ---- tables


def test_markdown_is_padded() -> None:
    assert markdown(("name", "n"), [("a", "1"), ("longer", "1000")]).splitlines() == [
        "| name   |    n |",
        "| ------ | ---: |",
        "| a      |    1 |",
        "| longer | 1000 |",
    ]


def test_speed_table_has_ratios_in_our_row_only() -> None:
    rows = [result("softneuro", [[2_000_000]], macs=10**8, peak_gflops=200.0, peak_bytes=50_000_000, load_ns=1_500_000),
            result("onnxruntime", [[3_000_000]])]  # fmt: skip
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in speed_table(rows).splitlines()]
    assert all(len(line) == len(lines[0]) for line in lines)
    ours, peer = (dict(zip(lines[0], line, strict=True)) for line in lines[2:])
    assert (ours["median ms"], ours["peer/ours median"], ours["peer/ours minimum"]) == ("2.000", "1.50", "1.50")
    assert (ours["of peak"], ours["load ms"], ours["peak MB"]) == ("50 %", "1.5", "50")
    assert (peer["peer/ours median"], peer["of peak"]) == ("", "")


def test_json_is_plain_data() -> None:
    entries = json.loads(json.dumps(as_json([result("softneuro", [[4, 4]]), result("openvino", [[2]])])))
    assert entries[0]["peer_over_ours_median"] == 0.5 and entries[0]["rounds"] == [[4, 4]]
    assert "peer_over_ours_median" not in entries[1]


def test_cold_start_summary() -> None:
    case = bench_models.Case("model", 2, Path("p"), Path("m"), Path("f"), 0)
    starts = [{"version": "1", "import_ns": i, "load_ns": 10 * i, "first_ns": 100, "peak_bytes": i} for i in (1, 3, 2)]
    found = bench_models.summary(case, "softneuro", starts)
    assert (found["median_ns"], found["minimum_ns"], found["load_ns"], found["peak_bytes"]) == (122, 111, 20, 3)
    assert bench_models.cold_table([found]).count("\n") == 2
    assert case.file_for("softneuro") == Path("p") and case.file_for("openvino") == Path("m")


def test_routine_table_marks_the_fastest() -> None:
    problem = Problem.parse("matmul(transpose_a=False, transpose_b=False) f32[10,50] *f32[50,10] -> f32[10,10] @1")
    rows = [bench_routines.Row("slow", Measurement(200.0, 0.1)), bench_routines.Row("fast", Measurement(100.0)),
            bench_routines.Row("wrong", "gives a wrong result")]  # fmt: skip
    head, slow, fast, wrong = bench_routines.table(rows, problem, Peak(1, 200.0, {}))
    assert head.split()[:3] == ["candidate", "ms", "GFLOP/s"]
    assert slow.split()[:4] == ["slow", "0.0002", "50.0", "25.0%"] and not slow.endswith("<--")
    assert fast.split()[:4] == ["fast", "0.0001", "100.0", "50.0%"] and fast.endswith("<--")
    assert wrong.split(maxsplit=1) == ["wrong", "gives a wrong result"]


def test_routine_table_without_arithmetic() -> None:
    problem = Problem.parse("softmax(axis=1) f32[4,10] -> f32[4,10] @1")
    _, row, view = bench_routines.table(
        [bench_routines.Row("rows", Measurement(100.0)), bench_routines.Row("view", Measurement(0.0))], problem, Peak(1, 1.0, {}))
    assert row.split() == ["rows", "0.0001", "3.2", "0%"]
    assert view.split() == ["view", "0.0000", "0%", "<--"]


def test_every_candidate_is_measured() -> None:
    problem = Problem.parse("softmax(axis=1) f32[4,10] -> f32[4,10] @1")
    rows = bench_routines.measured(problem, next(iter(TARGETS.values())), 0, Effort(blocks=1, block_ns=1))
    assert rows and all(isinstance(row.result, Measurement) for row in rows)


def test_routines_of_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_routines.main(["nonsense"]) == 2
    assert "needed op(...) input types" in capsys.readouterr().err


# ---- peak


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_peak_kernels_compute(target: Target, threads: int) -> None:
    team = Team(threads, target)
    sink, numbers = np.zeros((threads, 16), np.float32), np.array([0.5, 1.0], np.float32)
    words = np.array([3, numbers.ctypes.data, sink.ctypes.data], np.int64)
    team.run(address(KernelSpec.of("peak_fma", chains=12), target), words.ctypes.data)
    assert (sink[:, 0] == 12 * 1.75).all()
    lanes, loads, steps, passes = target.f32_lanes, 8, 5, 3
    data = np.arange(threads * steps * loads * lanes, dtype=np.float32)
    words = np.array([data.ctypes.data, steps, passes, sink.ctypes.data], np.int64)
    team.run(address(KernelSpec.of("peak_read", loads=loads), target), words.ctypes.data)
    np.testing.assert_array_equal(sink[:, 0], passes * data.reshape(threads, -1, lanes)[:, :, 0].sum(axis=1))


@pytest.mark.parametrize(("caches", "threads"), [
    ((32 << 10, 1 << 20, 32 << 20), 1), ((32 << 10, 1 << 20, 32 << 20), 64), ((48 << 10, 2 << 20, 16 << 20), 8), ((None,) * 3, 1),
], ids=["one_thread", "more_threads_than_cache", "several_threads", "unknown"])  # fmt: skip
def test_working_sets_lie_in_their_level(caches: tuple[int | None, int | None, int | None], threads: int) -> None:
    sets = working_sets(Cpu("v", "n", "m", frozenset(), 8, *caches), threads)
    assert tuple(sets) == LEVELS
    l1, l2 = caches[0] or 32 << 10, caches[1] or 512 << 10
    assert sets["L1"] < l1 < sets["L2"] <= l2 < sets["L3"]
    assert sets["DRAM"] * threads >= 4 * (caches[2] or 16 << 20)


def test_share_of_peak() -> None:
    assert Peak(1, 100.0, {}).share(macs=500, ns=20.0) == 0.5
    assert Peak(1, 100.0, {}).share(macs=500, ns=0.0) == 0.0


def test_peak_lines() -> None:
    head, row = peak.lines([Peak(2, 200.0, dict.fromkeys(LEVELS, 10.0))])
    assert row.split() == ["2", "200.0", "100.0", *["10.0"] * 4]
    assert len(head) == len(row)


# ---- the worker


def test_worker_answers(tmp_path: Path) -> None:
    graph = conv_chain()
    plan_of(graph).save(tmp_path / "a.plan")
    np.savez(tmp_path / "feeds.npz", **feeds_for(graph))  # type: ignore[arg-type]
    with Engine("softneuro", tmp_path / "a.plan", 1, tmp_path / "feeds.npz") as engine:
        assert engine.greeting.keys() == {"version", "import_ns", "load_ns", "first_ns", "peak_bytes"}
        assert len(engine.turn(0.0)) == 1
        assert all(ns > 0 for ns in engine.turn(0.001))
        assert engine.peak_bytes >= engine.greeting["peak_bytes"] > 1_000_000


def test_an_engine_that_fails_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "feeds.npz", x=np.zeros(1))
    with pytest.raises(EngineFailed, match=r"softneuro ended without an answer \(exit code 1\)"):
        Engine("softneuro", tmp_path / "absent.plan", 1, tmp_path / "feeds.npz")
    assert "absent.plan" in capfd.readouterr().err


def test_what_an_engine_prints_stays_out_of_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "feeds.npz", x=np.zeros(1))
    loud = (lambda: str(print("loud")), lambda model, threads, feeds: lambda: print("loud"))
    monkeypatch.setattr(bench_worker, "ENGINES", {"loud": loud})
    job = {"engine": "loud", "model": "", "threads": 1, "feeds": str(tmp_path / "feeds.npz")}
    answers = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(job) + "\n" + json.dumps({"run": 0.0}) + "\n"))
    monkeypatch.setattr("sys.stdout", answers)
    assert bench_worker.main() == 0
    greeting, turn = map(json.loads, answers.getvalue().splitlines())
    assert greeting["version"] == "None" and len(turn["times"]) == 1
