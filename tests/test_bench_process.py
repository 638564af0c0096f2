"""Engines in processes of their own: what they answer, how they fail, and that none outlives its parent."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softneuro.bench.engines import OURS, PEERS, Engine, installed, require
from softneuro.bench.ncnn_model import ncnn_model
from softneuro.bench.process import EngineFailed, EngineProcess, ending
from softneuro.bench.run_ncnn import _number
from softneuro.bench.sized_model import sized_model
from softneuro.bench.turns import Case, Found, measure, start
from softneuro.bench.worker import times_for
from softneuro.errors import NotInstalled
from tests.bench_fake import VERSION, fake
from tests.cli_harness import Bench, picture

ROOT = Path(__file__).parent.parent


def case_of(bench: Bench, threads: int = 1, batch: int = 1) -> Case:
    """The model with a free batch."""
    return Case("model", bench.free_plan, bench.free, threads, batch, {"x": picture(batch)})


def started(behaviour: str, bench: Bench, folder: Path) -> EngineProcess:
    return start(fake(behaviour), case_of(bench), folder)


# ---- answers


def test_our_engine_answers(bench: Bench, tmp_path: Path) -> None:
    with start(OURS, case_of(bench), tmp_path) as engine:
        assert engine.greeting.keys() == {"version", "import_ns", "load_ns", "first_ns", "macs", "compiled", "peak_bytes"}
        assert engine.greeting["macs"] >= 8 * 27 * 30 + 4 * 8 * 30 + 12 * 120
        assert engine.outputs[0].shape == (1, 12)
        assert len(engine.turn(0.0)) == 1
        assert all(ns > 0 for ns in engine.turn(0.001))
        assert engine.peak_bytes >= engine.greeting["peak_bytes"] > 1_000_000


def test_what_an_engine_prints_stays_out_of_the_answers(bench: Bench, tmp_path: Path) -> None:
    with started("loud", bench, tmp_path) as engine:
        assert engine.greeting["version"] == VERSION
        assert len(engine.turn(0.0)) == 1


def test_a_turn_lasts_until_its_time_is_up() -> None:
    ticks = iter(range(0, 100_000, 10))
    runs: list[None] = []
    times = times_for(lambda: runs.append(None), 50e-9, lambda: next(ticks))
    assert times == [10, 10, 10] and len(runs) == 1 + 3
    assert times_for(lambda: None, 0.0, lambda: next(ticks)) == [10]


def test_the_worker_runs_where_stray_modules_lie(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('stray')")
    monkeypatch.chdir(tmp_path)
    with started("", bench, tmp_path) as engine:
        assert engine.greeting["version"] == VERSION


# ---- failures


@pytest.mark.parametrize(("behaviour", "message"), [
    ("raises", "fake cannot run the model: ValueError: no layer for that"),
    ("exits", "fake: its process ended with exit code 7 after it said 'out of luck'"),
    ("killed", "fake: its process was ended by SIGKILL (memory ran out, or somebody ended it)"),
])  # fmt: skip
def test_an_engine_that_does_not_start(bench: Bench, tmp_path: Path, behaviour: str, message: str) -> None:
    with pytest.raises(EngineFailed) as failure:
        started(behaviour, bench, tmp_path)
    assert str(failure.value) == message


@pytest.mark.parametrize(("behaviour", "message"), [
    ("raises later", "fake cannot run the model: ValueError: no layer for that"), ("crashes later", "ended by SIGSEGV"),
])  # fmt: skip
def test_an_engine_that_fails_in_a_turn(bench: Bench, tmp_path: Path, behaviour: str, message: str) -> None:
    with started(behaviour, bench, tmp_path) as engine, pytest.raises(EngineFailed, match=message):
        engine.turn(0.0)


@pytest.mark.parametrize(("code", "words"), [
    (0, "exit code 0"), (3, "exit code 3"), (-11, "by SIGSEGV"), (-4, "by SIGILL (an instruction"), (-200, "by signal 200"),
])  # fmt: skip
def test_ending(code: int, words: str) -> None:
    assert words in ending(code)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system cannot wait for a process that is no child")
@pytest.mark.parametrize("behaviour", ["", "sleeps"], ids=["between_turns", "in_a_turn"])
def test_no_engine_outlives_its_parent(bench: Bench, tmp_path: Path, behaviour: str) -> None:
    script = f"""
import sys, pathlib
sys.path.insert(0, {str(ROOT)!r})
from tests.bench_fake import fake
from softneuro.bench.turns import Case, start
from tests.cli_harness import picture
folder = pathlib.Path({str(tmp_path)!r})
engine = start(fake({behaviour!r}), Case("m", folder, folder, 1, 1, {{"x": picture()}}), folder)
print(engine._process.pid, flush=True)
engine.turn(0.0)
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system cannot wait for a process that is no child")
def test_what_an_engine_started_ends_with_it(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="SIGKILL") as failure:
        started("leaves a child", bench, tmp_path)
    try:
        child = os.pidfd_open(int(str(failure.value).split("'")[1]))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended


@pytest.mark.parametrize(("name", "number"), [("in0", 0), ("in12", 12)])
def test_numbers_of_translated_inputs(name: str, number: int) -> None:
    assert _number(name, "in") == number
    with pytest.raises(RuntimeError, match=f"has '{name}' where out0, out1, … are needed"):
        _number(name, "out")


# ---- turns


def quiet(text: str, done: int, total: int) -> None:
    pass


def measured(case: Case, peers: list[Engine], folder: Path) -> Found:
    found = Found()
    measure(case, peers, 0.0, folder, found, quiet)
    return found


def test_engines_take_turns(bench: Bench, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = Found()
    measure(case_of(bench), [fake("")], 0.0, tmp_path, found, lambda *where: told.append(where))
    assert [text.rsplit(" ", 1)[-1] for text, _, total in told if total] == 3 * ["softneuro", "fake"]
    assert [(done, total) for _, done, total in told if total] == [(n, 6) for n in range(6)]
    ours, other = found.results
    assert (ours.engine, ours.difference, len(ours.rounds)) == ("softneuro", None, 3)
    assert (other.engine, other.version, len(other.rounds), other.macs) == ("fake", VERSION, 3, 1000)
    assert other.difference == pytest.approx(1.0)  # zeros in place of our outputs
    assert not found.left_out


@pytest.mark.parametrize(("peer", "reason"), [
    (fake("raises"), "ValueError"), (fake("killed"), "SIGKILL"), (fake("crashes later"), "SIGSEGV"),
    (fake("", converted=True), "its translation of the model gives other outputs than ours (largest relative difference 1)"),
    (fake("wrong shape", converted=True), "relative difference inf"),
], ids=["raises", "killed", "crashes_later", "translated_wrongly", "translated_to_another_shape"])  # fmt: skip
def test_a_peer_that_fails_is_left_out(bench: Bench, tmp_path: Path, peer: Engine, reason: str) -> None:
    found = measured(case_of(bench), [peer], tmp_path)
    assert [r.engine for r in found.results] == ["softneuro"]
    (entry,) = found.left_out
    assert (entry.engine, entry.case) == ("fake", "model, threads 1, batch 1") and reason in entry.reason


def test_an_engine_that_compiles_is_started_again(bench: Bench, tmp_path: Path) -> None:
    (other,) = measured(case_of(bench), [fake("compiles")], tmp_path).results[1:]
    assert other.load_ns > 0 and (tmp_path / "compiled").read_text() == "twice"


def test_another_shape_is_told(bench: Bench, tmp_path: Path) -> None:
    assert measured(case_of(bench), [fake("wrong shape")], tmp_path).results[1].difference == float("inf")


def test_our_own_failure_is_raised(bench: Bench, tmp_path: Path) -> None:
    case = Case("model", bench.plan, bench.model, 1, 1, {"x": picture(2)})
    with pytest.raises(EngineFailed, match="softneuro cannot run the model: input 'x'"):
        measured(case, [], tmp_path)


def test_an_interruption_keeps_what_was_measured(bench: Bench, tmp_path: Path) -> None:
    def progress(text: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = Found()
    with pytest.raises(KeyboardInterrupt):
        measure(case_of(bench), [fake("")], 0.0, tmp_path, found, progress)
    assert [(r.engine, len(r.rounds)) for r in found.results] == [("softneuro", 2), ("fake", 1)]


# ---- the peers


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("batch", [1, 3])
def test_peers_compute_what_we_do(bench: Bench, tmp_path: Path, name: str, batch: int) -> None:
    if not installed(PEERS[name]):
        pytest.skip(f"{name} is not installed")
    found = measured(case_of(bench, batch=batch), [PEERS[name]], tmp_path)
    assert not found.left_out
    difference = found.results[1].difference
    assert difference is not None and difference < 1e-4


@pytest.mark.parametrize("name", PEERS)
def test_peers_run_fixed_models_with_another_batch(bench: Bench, tmp_path: Path, name: str) -> None:
    if not installed(PEERS[name]):
        pytest.skip(f"{name} is not installed")
    case = Case("model", bench.free_plan, bench.model, 1, 2, {"x": picture(2)})
    with start(PEERS[name], case, tmp_path) as engine, start(OURS, case, tmp_path) as ours:
        np.testing.assert_allclose(engine.outputs[0].reshape(2, 12), ours.outputs[0], rtol=1e-3, atol=1e-4)


def test_missing_packages_are_named() -> None:
    require([OURS, fake("")])
    absent = fake("", packages=("softneuro", "softneuro_absent"))
    assert not installed(absent)
    with pytest.raises(NotInstalled) as failure:
        require([absent])
    assert str(failure.value) == "fake: package 'softneuro_absent' is not installed, needed pip install 'softneuro[bench]'"


def test_a_model_is_copied_only_when_its_sizes_differ(bench: Bench, tmp_path: Path) -> None:
    assert sized_model(bench.model, {"x": picture()}, tmp_path) == bench.model
    assert sized_model(bench.free, {"x": picture(5)}, tmp_path) == bench.free
    copy = sized_model(bench.model, {"x": picture(2)}, tmp_path)
    assert copy.parent == tmp_path and copy == sized_model(bench.model, {"x": picture(2)}, tmp_path)
    assert copy != sized_model(bench.model, {"x": picture(3)}, tmp_path)


@pytest.mark.skipif(not installed(PEERS["ncnn"]), reason="ncnn is not installed")
def test_a_translation_for_ncnn_is_made_once(bench: Bench, tmp_path: Path) -> None:
    param = ncnn_model(bench.model, {"x": picture()}, tmp_path)
    made = param.stat().st_mtime_ns
    assert param.with_suffix(".bin").is_file()
    assert ncnn_model(bench.model, {"x": picture()}, tmp_path).stat().st_mtime_ns == made
    assert not list(bench.model.parent.glob("*ncnn*")) and not list(bench.model.parent.glob("*pnnx*"))


@pytest.mark.skipif(not installed(PEERS["ncnn"]), reason="ncnn is not installed")
def test_a_model_that_pnnx_cannot_translate(tmp_path: Path) -> None:
    (tmp_path / "damaged.onnx").write_bytes(b"")
    with pytest.raises(EngineFailed, match="pnnx cannot translate the model"):
        ncnn_model(tmp_path / "damaged.onnx", {"x": picture()}, tmp_path)
    with pytest.raises(EngineFailed, match="input 'x' has data type complex64, needed one of"):
        ncnn_model(tmp_path / "damaged.onnx", {"x": np.zeros(1, np.complex64)}, tmp_path)
