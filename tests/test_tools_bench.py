"""The benchmark tools' arithmetic and tables, and that the peak kernels compute. No speeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle import runnable_targets

from softneuro.bench.engines import OURS
from softneuro.bench.turns import Case
from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.cpu import Cpu
from softneuro.graph import Graph, GraphInput
from softneuro.plan.plan import Plan, Provenance
from softneuro.problem import Problem
from softneuro.runtime.team import Team
from softneuro.tuning.measure import Effort
from softneuro.tuning.peak import LEVELS, Peak, working_sets
from softneuro.tuning.profile import Measurement
from softneuro.types import DType
from tests.bench_fake import VERSION, fake
from tests.cli_harness import Bench, picture
from tools import bench_models, bench_routines, peak
from tools.bench_inputs import feeds_of

TARGETS = runnable_targets()


# ---- models


def test_cold_start_summary() -> None:
    case = Case("model", Path("p"), Path("m"), 2, 1, {})
    starts = [{"version": "1", "import_ns": i, "load_ns": 10 * i, "first_ns": 100, "peak_bytes": i} for i in (1, 3, 2)]
    found = bench_models.summary(case, "softneuro", starts)
    assert (found["median_ns"], found["minimum_ns"], found["load_ns"], found["peak_bytes"]) == (122, 111, 20, 3)
    assert bench_models.cold_table([found]).count("\n") == 2


def test_cold_starts_are_fresh_processes(bench: Bench, tmp_path: Path) -> None:
    case = Case("model", bench.plan, bench.model, 1, 1, {"x": picture()})
    ours, other = bench_models.cold_starts(case, (OURS, fake("")), 2, tmp_path)
    assert (ours["engine"], other["engine"], other["version"]) == ("softneuro", "fake", VERSION)
    assert ours["median_ns"] >= ours["minimum_ns"] > 0 and ours["peak_bytes"] > 0


def test_feeds_are_valid_as_tokens_lengths_and_rates() -> None:
    floats, whole, rate = GraphInput(DType.F32, (1, 4)), GraphInput(DType.I64, (1, 3)), GraphInput(DType.I64, ())
    graph = Graph({"x": floats, "tokens": whole, "sr": rate}, (), (), {}, {})
    feeds = feeds_of(Plan(graph, {}, Provenance(shapes={"x": (1, 4), "tokens": (1, 3), "sr": ()})))
    assert feeds["x"].dtype == np.float32 and feeds["x"].std() > 0
    assert feeds["tokens"].tolist() == [[1, 1, 1]] and feeds["sr"].tolist() == 16000


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
