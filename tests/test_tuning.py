"""Tuning: the profile on disk, resuming after an interruption, the stopwatch with a made-up clock, wrong routines."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx_build import model, normal

import softneuro
from softneuro import reference
from softneuro.codegen import target as targets
from softneuro.errors import ProfileError, SoftneuroError
from softneuro.importer.model import import_model
from softneuro.ops.conv import Conv
from softneuro.plan.defaults import choice_of
from softneuro.plan.plan import Choice, Plan
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates
from softneuro.routines.routine import Signature
from softneuro.routines.table import ROUTINES
from softneuro.runtime.team import Team
from softneuro.tuning import costs, tuner
from softneuro.tuning.measure import Effort, WrongResult, measure
from softneuro.tuning.profile import Measurement, Profile
from softneuro.types import DType, TensorType

HOST = targets.host()
ROOT = Path(__file__).parent.parent
TYPES = (TensorType(DType.F32, (1, 16, 6, 5)), TensorType(DType.F32, (16, 16, 3, 3)))
PROBLEM = Problem.of(Conv((1, 1), (1, 1, 1, 1), (1, 1)), TYPES, (False, True))


def conv_model(channels: Sequence[int] = (3, 8, 12)) -> ModelProto:
    """A chain of 3x3 convolutions, each with other channels, so each a problem of its own."""
    pairs = list(itertools.pairwise(channels))
    nodes = [helper.make_node("Conv", [f"t{i}", f"w{i}"], [f"t{i + 1}"], pads=[1, 1, 1, 1]) for i in range(len(pairs))]
    weights = {f"w{i}": normal(k, c, 3, 3, seed=i) / 9 for i, (c, k) in enumerate(pairs)}
    return model(nodes, {"t0": normal(1, channels[0], 10, 9)}, [f"t{len(pairs)}"], constants=weights)


# ---- the profile


def profile_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_measurement_is_on_disk_when_add_returns(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "times.jsonl"
    profile = Profile(HOST, path)
    for number in range(3):
        profile.add(f"key{number}", Measurement(number + 0.5, 0.25))
        assert len(profile_lines(path)) == number + 1
        assert path.read_bytes().endswith(b"\n")
    again = Profile(HOST, path)
    assert len(again) == 3
    assert again.get("key2") == Measurement(2.5, 0.25)
    assert again.get("absent") is None
    profile.close()
    assert profile.get("key0") == Measurement(0.5, 0.25)


def test_a_failure_is_kept_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    profile = Profile(HOST, path)
    profile.add("a", Measurement(1.0))
    profile.fail("a", "it is\n wrong")
    profile.fail("b", "x" * 100_000)
    profile.add("b", Measurement(2.0))
    profile.close()
    for each in (profile, Profile(HOST, path)):  # what was found last counts
        assert (each.get("a"), each.failure("a")) == (None, "it is wrong")
        assert (each.get("b"), each.failure("b")) == (Measurement(2.0), None)
        assert each.failure("c") is None
    assert max(map(len, profile_lines(path))) < 1200
    assert Profile(replace(HOST, name="another_width"), path).failure("a") is None


def test_readers_that_know_no_failures_find_a_measurement_of_something_else(tmp_path: Path) -> None:
    profile = Profile(HOST, tmp_path / "times.jsonl")
    profile.fail("a", "it is wrong")
    profile.close()
    record = json.loads((tmp_path / "times.jsonl").read_text())
    assert {"key", "machine", "ns", "spread"} <= set(record) and record["key"] != "a"


def test_nothing_is_written_before_the_first_measurement(tmp_path: Path) -> None:
    Profile(HOST, tmp_path / "times.jsonl").close()
    assert not list(tmp_path.iterdir())


def test_a_profile_without_a_file_remembers() -> None:
    profile = Profile(HOST)
    profile.add("key", Measurement(1.0))
    assert profile.get("key") == Measurement(1.0)


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "times.jsonl"
    first = Profile(HOST, path)
    first.add("whole", Measurement(1.0))
    first.add("torn", Measurement(2.0))
    first.close()
    whole, torn = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole + torn[:kept])
    second = Profile(HOST, path)
    assert second.get("whole") == Measurement(1.0) and second.get("torn") is None
    second.add("new", Measurement(3.0))
    second.close()
    third = Profile(HOST, path)  # the torn line must not have become one in the middle
    assert third.get("whole") == Measurement(1.0) and third.get("new") == Measurement(3.0)
    assert len(profile_lines(path)) == 2


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    first = Profile(HOST, path)
    first.add("a", Measurement(1.0))
    first.close()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    second = Profile(HOST, path)
    second.add("b", Measurement(2.0))
    second.close()
    assert Profile(HOST, path).get("a") == Measurement(1.0)
    assert Profile(HOST, path).get("b") == Measurement(2.0)


def test_lines_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    foreign = json.dumps({"key": "a", "machine": "another", "ns": 1.0, "spread": 0.0})
    path.write_text(foreign + "\n")
    profile = Profile(HOST, path)
    assert profile.get("a") is None and len(profile) == 0
    profile.add("a", Measurement(9.0))
    profile.close()
    assert profile_lines(path)[0] == foreign
    assert Profile(HOST, path).get("a") == Measurement(9.0)
    assert Profile(replace(HOST, name="another_width"), path).get("a") is None


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    profile = Profile(HOST, tmp_path / "times.jsonl")
    for ns in (3.0, 1.0, 2.0):
        profile.add("a", Measurement(ns))
    profile.close()
    assert Profile(HOST, tmp_path / "times.jsonl").get("a") == Measurement(2.0)


@pytest.mark.parametrize("damaged", [
    b"hello", b"[1, 2]", b"7", b"null", b'{"key": "a"}', b'{"key": "a", "machine": "m", "ns": "fast", "spread": 0}',
], ids=["text", "list", "number", "null", "fields_missing", "time_is_text"])  # fmt: skip
def test_a_damaged_line_in_the_middle_is_an_error(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "times.jsonl"
    profile = Profile(HOST, path)
    profile.add("a", Measurement(1.0))
    profile.close()
    content = path.read_bytes() + damaged + b"\n" + path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(ProfileError, match="line 2: is not a measurement"):
        Profile(HOST, path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"\xff\xfe\x00 no text", None], ids=["binary", "folder"])
def test_what_is_no_profile_at_all(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "times.jsonl"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ProfileError, match="cannot be read" if content is None else "line 1: is not a measurement"):
        Profile(HOST, path)
    assert content is None or path.read_bytes() == content


def test_a_profile_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match="cannot be written"):
        Profile(HOST, tmp_path / "file" / "times.jsonl").add("a", Measurement(1.0))


def test_keys_tell_apart_what_is_timed_apart() -> None:
    choice = Choice("conv.igemm.f32.chl", Signature.parse("f32:chl,->f32:chl"), {"nv": 2, "mr": 6})
    others = [
        Profile.key(replace(PROBLEM, threads=2), choice, "digest"),
        Profile.key(PROBLEM, replace(choice, routine="conv.direct.f32.chf"), "digest"),
        Profile.key(PROBLEM, replace(choice, signature=Signature.parse("f32:chf,->f32:chl")), "digest"),
        Profile.key(PROBLEM, replace(choice, schedule={"nv": 2, "mr": 5}), "digest"),
        Profile.key(PROBLEM, choice, "other digest"),
    ]
    key = Profile.key(PROBLEM, choice, "digest")
    assert len({key, *others}) == 6
    assert Profile.key(PROBLEM, replace(choice, schedule={"mr": 6, "nv": 2}), "digest") == key


# ---- resuming


class Counting:
    """Stands in for `measure`: counts what is measured, and stops at a problem when told to."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.problems: list[str] = []
        self.candidates = 0
        self._stop_at = stop_at

    def __call__(self, problem: Problem, choices: Sequence[Choice], *args: Any, **keywords: Any) -> None:
        if len(self.problems) == self._stop_at:
            raise KeyboardInterrupt
        self.problems.append(problem.key())
        self.candidates += len(choices)
        measure(problem, choices, *args, **{**keywords, "effort": Effort(blocks=2, block_ns=1)})


def keys(path: Path) -> list[str]:
    return [json.loads(line)["key"] for line in profile_lines(path)]


def tune(path: Path, profile: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> Counting:
    """Tune with little effort; gives what was measured."""
    counting = Counting(stop_at)
    monkeypatch.setattr(costs, "measure", counting)
    softneuro.tune(path, threads=1, profile=profile)
    return counting


@pytest.fixture
def saved_model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(conv_model().SerializeToString())
    return path


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tune(saved_model, tmp_path / "whole.jsonl", monkeypatch)
    total = len(whole.problems)
    assert total >= 3  # two convolutions and conversions
    profile = tmp_path / "times.jsonl"
    with pytest.raises(KeyboardInterrupt):
        tune(saved_model, profile, monkeypatch, stop_at=2)
    before = profile_lines(profile)
    assert before
    rest = tune(saved_model, profile, monkeypatch)
    assert rest.problems == whole.problems[2:]
    assert profile_lines(profile)[: len(before)] == before
    assert sorted(keys(profile)) == sorted(keys(tmp_path / "whole.jsonl"))
    assert tune(saved_model, profile, monkeypatch).problems == []


def test_a_second_model_reuses_the_profile(tmp_path: Path, saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "times.jsonl"
    first = tune(saved_model, profile, monkeypatch)
    longer = tmp_path / "longer.onnx"
    longer.write_bytes(conv_model((3, 8, 12, 20)).SerializeToString())
    second = tune(longer, profile, monkeypatch)
    assert second.problems and not set(first.problems) & set(second.problems)


def test_two_thread_counts_are_measured_apart(tmp_path: Path, saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "times.jsonl"
    tune(saved_model, profile, monkeypatch)
    counting = Counting()
    monkeypatch.setattr(costs, "measure", counting)
    softneuro.tune(saved_model, threads=2, profile=profile)
    assert all(problem.endswith("@2") for problem in counting.problems) and counting.problems


def test_killed_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, profile = tmp_path / "model.onnx", tmp_path / "times.jsonl"
    path.write_bytes(conv_model((3, 8, 12, 16, 20, 24, 28, 32, 36, 40)).SerializeToString())
    whole = tune(path, tmp_path / "whole.jsonl", monkeypatch)
    command = [sys.executable, "-m", "softneuro", "tune", str(path), "-o", str(tmp_path / "a.plan"), "--threads", "1",
               "--profile", str(profile)]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None and (not profile.exists() or profile.read_bytes().count(b"\n") < 3):
            time.sleep(0.001)
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    assert not (tmp_path / "a.plan").exists()
    kept = [line for line in profile.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert len(kept) >= 3
    rest = tune(path, profile, monkeypatch)
    assert rest.candidates == whole.candidates - len(kept)
    assert profile.read_bytes().splitlines(keepends=True)[: len(kept)] == kept
    assert sorted(keys(profile)) == sorted(keys(tmp_path / "whole.jsonl")), "each candidate once, none lost or measured twice"


# ---- time limits


def test_no_time_measures_nothing(tmp_path: Path, saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **keywords: object) -> None:
        raise AssertionError("measured")

    for name in ("measure", "measure_host"):
        monkeypatch.setattr(costs, name, never)
    plan = softneuro.tune(saved_model, threads=1, time_limit=0, profile=tmp_path / "times.jsonl")
    assert not (tmp_path / "times.jsonl").exists()
    made = plan.provenance
    assert made.measured_ns is None and made.predicted_ns is None and not made.optimal
    feeds = {"t0": normal(1, 3, 10, 9)}
    expected = reference.run(import_model(saved_model), feeds)["t2"]
    np.testing.assert_allclose(softneuro.Session(plan).run(feeds)["t2"], expected, rtol=1e-4, atol=1e-4)


def test_too_little_time_still_makes_a_right_plan(saved_model: Path) -> None:
    plan = softneuro.tune(saved_model, threads=1, time_limit=1e-9)
    feeds = {"t0": normal(1, 3, 10, 9)}
    expected = reference.run(import_model(saved_model), feeds)["t2"]
    np.testing.assert_allclose(softneuro.Session(plan).run(feeds)["t2"], expected, rtol=1e-4, atol=1e-4)


def test_progress_names_the_stages(saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "measure", Counting())
    seen: list[softneuro.Progress] = []
    softneuro.tune(saved_model, threads=1, progress=seen.append)
    stages = list(dict.fromkeys(progress.stage for progress in seen if progress.stage != "compile"))
    assert stages == ["import", "measure", "select", "check"]
    assert all(0 <= progress.done <= progress.total for progress in seen)


# ---- the stopwatch


class Clock:
    """Nanoseconds that pass as told: each pair of readings is one run."""

    def __init__(self, durations: Iterator[int]) -> None:
        self._durations = durations
        self._now = 0
        self._started = False
        self.runs = 0

    def __call__(self) -> int:
        if self._started:
            self._now += next(self._durations)
            self.runs += 1
        self._started = not self._started
        return self._now


def timed(durations: Sequence[int], effort: Effort, count: int = 2) -> tuple[dict[str, Measurement], int]:
    """Measure the first ``count`` candidates of PROBLEM with a clock that goes as told; gives times and the runs made."""
    choices = [choice_of(candidate) for candidate in candidates(PROBLEM, HOST)[:count]]
    clock = Clock(iter(durations))
    found: dict[str, Measurement] = {}

    def finished(choice: Choice, result: Measurement | SoftneuroError) -> None:
        assert isinstance(result, Measurement), result
        found[f"candidate {choices.index(choice)}"] = result

    measure(PROBLEM, choices, HOST, Team(1, HOST), footprint=0, effort=effort, timer=clock, finished=finished)
    return found, clock.runs


def test_median_of_block_minima() -> None:
    # two runs fill a block; candidates take turns, block by block
    first, second = ([20, 10], [12, 30], [11, 50]), ([13, 14], [13, 15], [16, 13])
    durations = [99, 98, *(ns for a, b in zip(first, second, strict=True) for ns in (*a, *b))]  # the first round is short
    found, runs = timed(durations, Effort(blocks=3, short_ns=1, block_ns=25, hopeless=(9.0,)))
    assert runs == len(durations)
    assert found["candidate 0"] == Measurement(11.0, 2 / 11)
    assert found["candidate 1"] == Measurement(13.0, 0.0)


def test_the_same_clock_gives_the_same_times() -> None:
    durations = np.random.default_rng(0).integers(10, 13, 200).tolist()
    effort = Effort(blocks=4, short_ns=1, block_ns=30)
    assert timed(durations, effort) == timed(durations, effort)


def test_a_block_lasts_its_least_time() -> None:
    _, runs = timed([10] * 100, Effort(blocks=1, short_ns=15, block_ns=95), count=1)
    assert runs == 2 + 10


def test_hopeless_candidates_are_dropped() -> None:
    durations = [10, 100, 10, 100, 12, 12, 12]  # the second candidate is let go after the second round
    found, runs = timed(durations, Effort(blocks=4, short_ns=1, block_ns=1, hopeless=(20.0, 1.3)))
    assert runs == len(durations)
    assert found["candidate 0"].ns == 12.0
    assert found["candidate 1"] == Measurement(100.0, 0.0)


def test_a_clock_that_stands_still_ends() -> None:
    found, _ = timed([0] * 100, Effort(blocks=1, short_ns=1, block_ns=3), count=1)
    assert found["candidate 0"].ns == 0.0


# ---- wrong routines


def spoil(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a convolution routine pack weights that are not the model's."""

    def spoiled(pack: Callable[..., tuple[np.ndarray, ...]]) -> Callable[..., tuple[np.ndarray, ...]]:
        return lambda *args: tuple(array + 1 for array in pack(*args))

    table = tuple(replace(r, pack=spoiled(r.pack)) if r.name == name else r for r in ROUTINES[Conv])
    monkeypatch.setitem(ROUTINES, Conv, table)  # type: ignore[arg-type]


CONV_ROUTINES = tuple(dict.fromkeys(candidate.routine.name for candidate in candidates(PROBLEM, HOST)))


@pytest.mark.parametrize("name", CONV_ROUTINES)
def test_wrong_results_are_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    spoil(monkeypatch, name)
    choices = [choice_of(candidate) for candidate in candidates(PROBLEM, HOST)]
    results: dict[str, set[type]] = {}
    measure(PROBLEM, choices, HOST, Team(1, HOST), footprint=0, effort=Effort(blocks=1, short_ns=1, block_ns=1),
            finished=lambda choice, result: results.setdefault(choice.routine, set()).add(type(result)))  # fmt: skip
    assert results.pop(name) == {WrongResult}
    assert all(kinds == {Measurement} for kinds in results.values())


@pytest.mark.parametrize("names", [*((name,) for name in CONV_ROUTINES), CONV_ROUTINES], ids="+".join)
def test_a_wrong_routine_is_never_chosen(saved_model: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    feeds = {"t0": normal(1, 3, 10, 9)}
    expected = reference.run(import_model(saved_model), feeds)["t2"]
    contenders: list[Plan] = []
    fastest = tuner.fastest_plan

    def noted(plans: Sequence[Plan], *others: Any) -> Plan:
        contenders.extend(plans)
        return fastest(plans, *others)

    monkeypatch.setattr(tuner, "fastest_plan", noted)
    monkeypatch.setattr(costs, "measure", Counting())
    for name in names:
        spoil(monkeypatch, name)
    softneuro.tune(saved_model, threads=1)
    assert contenders
    for plan in contenders:  # which of them is fastest is chance, so none may be wrong
        assert not set(names) & {choice.routine for choice in plan.choices.values()}
        np.testing.assert_allclose(softneuro.Session(plan).run(feeds)["t2"], expected, rtol=1e-4, atol=1e-4)
