"""What is asked of tuning: arguments refused, efforts, rules kept by every plan, misses, what plans keep, estimates."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto, helper
from onnx_build import model, normal

import softneuro
from softneuro.codegen import target as targets
from softneuro.errors import InputError, ProfileError, ResourceLimitError, SoftneuroError
from softneuro.plan.plan import Choice, Measured, Plan
from softneuro.problem import Problem
from softneuro.tuning import costs, tuner
from softneuro.tuning.estimate import Estimate, OpEstimate, estimate
from softneuro.tuning.measure import EFFORTS, Effort
from softneuro.tuning.profile import Measurement
from softneuro.tuning.request import Request
from tests.cli_harness import write_model

HOST = targets.host()


class Timed:
    """Stands in for `measure`: gives every candidate a time without running it, and notes the efforts asked for."""

    def __init__(self, fail: str = "", error: SoftneuroError | None = None) -> None:
        self.efforts: list[Effort] = []
        self.choices: list[Choice] = []
        self._fail, self._error = fail, error or SoftneuroError("it is wrong")

    def __call__(self, problem: Problem, choices: Sequence[Choice], *args: Any, effort: Effort, finished: Any,
                 **rest: Any) -> None:
        self.efforts.append(effort)
        self.choices += choices
        for number, choice in enumerate(choices):
            failed = self._fail and choice.routine.startswith(self._fail)
            finished(choice, self._error if failed else Measurement(1000.0 + number, 0.125))


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    stand_in = Timed()
    monkeypatch.setattr(costs, "measure", stand_in)
    return stand_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"dtypes": ("f32", "int4")}, "dtypes: found f32,int4, needed f32 and any of bf16, f16, qint8"),
    ({"dtypes": ("bf16",)}, "dtypes: found bf16, needed f32"),
    ({"threads": 0}, "threads: found 0"),
    ({"time_limit": -1.0}, "time_limit: found -1.0"),
    ({"time_limit": float("nan")}, "time_limit: found nan"),
    ({"effort": 4}, "effort: found 4, needed 0 to 3"),
    ({"effort": -1}, "effort: found -1"),
    ({"error_on_miss": True}, "error_on_miss: found no profile"),
    ({"routines": "igemm"}, "needed a list of texts"),
    ({"routines": ["igem"]}, "did you mean 'igemm'"),
])  # fmt: skip
def test_arguments_that_are_refused(path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        softneuro.tune(path, **{"threads": 1, **arguments})
    assert message in str(caught.value)


@pytest.mark.parametrize("effort", sorted(EFFORTS))
def test_efforts_reach_the_stopwatch(path: Path, timed: Timed, effort: int) -> None:
    softneuro.tune(path, threads=1, effort=effort)
    assert timed.efforts and set(timed.efforts) == {EFFORTS[effort]}


def test_more_effort_is_more_measuring() -> None:
    quick, usual, thorough = (EFFORTS[level] for level in sorted(EFFORTS))
    assert quick.blocks < usual.blocks < thorough.blocks
    assert quick.block_ns < usual.block_ns < thorough.block_ns
    assert quick.hopeless < usual.hopeless < thorough.hopeless
    assert usual == Effort()


@pytest.mark.parametrize("arguments", [{"effort": 0}, {"time_limit": 0}, {"effort": 3, "time_limit": 0}])
def test_no_effort_measures_nothing(path: Path, timed: Timed, arguments: dict[str, Any]) -> None:
    plan = softneuro.tune(path, threads=1, **arguments)
    assert not timed.efforts and plan.provenance.measured_ns is None and not plan.provenance.measured


def used(plan: Plan, layer: str) -> str:
    return plan.choices[layer].routine


@pytest.mark.parametrize("effort", [0, 2])
@pytest.mark.parametrize(("rules", "layer", "routine"), [
    (["conv.direct.f32.chf@Conv_0"], "Conv_0", "conv.direct.f32.chf"),
    (["igemm@Conv_0"], "Conv_0", "conv.igemm.f32.chl"),
    (["!chl", "!matmul.vector.*"], "Conv_2", "conv.direct.f32.chf"),
], ids=["pin_chf", "pin_chl", "forbid"])  # fmt: skip
def test_every_plan_keeps_the_rules(path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch, effort: int, rules: list[str],
                                    layer: str, routine: str) -> None:
    contenders: list[Plan] = []
    fastest = tuner.fastest_plan

    def noted(plans: Sequence[Plan], *others: Any) -> Plan:
        contenders.extend(plans)
        return fastest(plans, *others)

    monkeypatch.setattr(tuner, "fastest_plan", noted)
    plan = softneuro.tune(path, threads=1, routines=rules, effort=effort)
    for contender in [*contenders, plan]:
        assert used(contender, layer) == routine
    if effort:
        assert any(contender.provenance.kept == "default" for contender in contenders)


def test_only_what_is_allowed_is_measured(path: Path, timed: Timed) -> None:
    plan = softneuro.tune(path, threads=1, routines=["igemm@Conv_0,Conv_2"])
    convs = {choice.routine for choice in timed.choices if choice.routine.startswith("conv.")}
    assert convs == {"conv.igemm.f32.chl"}
    kept = {m.routine for measured in plan.provenance.measured.values() for m in measured if m.routine.startswith("conv.")}
    assert kept == convs


def test_rules_that_do_not_fit_the_model(path: Path, timed: Timed) -> None:
    with pytest.raises(InputError, match=r"layer 'Conv_2' has no such routine, it offers .*conv.igemm"):
        softneuro.tune(path, threads=1, routines=["winograd@Conv_2"])
    assert not timed.efforts


# ---- error on miss


def test_a_miss_is_an_error(path: Path, tmp_path: Path, timed: Timed) -> None:
    profile = tmp_path / "times.jsonl"
    with pytest.raises(ProfileError, match=r"times.jsonl.: lacks \d+ measurements of \d+ problems, of layers Conv_0, Conv_2"):
        softneuro.tune(path, threads=1, profile=profile, error_on_miss=True)
    assert not profile.exists() and not timed.efforts
    softneuro.tune(path, threads=1, profile=profile)
    measured = len(timed.efforts)
    plan = softneuro.tune(path, threads=1, profile=profile, error_on_miss=True)
    assert plan.provenance.predicted_ns or plan.provenance.kept == "default"
    assert len(timed.efforts) == measured
    lines = profile.read_text().splitlines()
    profile.write_text("\n".join(lines[1:]) + "\n")
    with pytest.raises(ProfileError, match="lacks 1 measurements of 1 problems"):
        softneuro.tune(path, threads=1, profile=profile, error_on_miss=True)
    with pytest.raises(ProfileError, match="lacks"):
        softneuro.tune(path, threads=2, profile=profile, error_on_miss=True)


# ---- what a plan keeps


def test_all_candidates_are_in_the_plan(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(costs, "measure", Timed(fail="conv.direct"))
    caplog.set_level(logging.ERROR, "softneuro")
    profile = tmp_path / "times.jsonl"
    measured = softneuro.tune(path, threads=1, profile=profile).provenance.measured
    ops = {Problem.parse(text).op.name for text in measured}
    assert {"conv", "matmul", "adapt"} <= ops
    for candidates in measured.values():
        assert candidates and all(isinstance(candidate, Measured) for candidate in candidates)
        for candidate in candidates:
            failed = candidate.routine.startswith("conv.direct")
            assert (candidate.ns is None, candidate.note) == ((True, "it is wrong") if failed else (False, ""))
    keys = [json.loads(line)["key"] for line in profile.read_text().splitlines()]
    timed = [f"{text} | {m.routine} {m.formats} " for text, ms in measured.items() for m in ms if m.ns]
    times = [key for key in keys if not key.endswith("| failed")]
    assert len(times) == len(timed) and all(any(key.startswith(start) for key in times) for start in timed)


def test_what_failed_is_known_the_next_time(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "softneuro")
    monkeypatch.setattr(costs, "measure", Timed(fail="conv.direct"))
    profile = tmp_path / "times.jsonl"
    first = softneuro.tune(path, threads=1, profile=profile)
    again = Timed()
    monkeypatch.setattr(costs, "measure", again)
    second = softneuro.tune(path, threads=1, profile=profile, error_on_miss=True)
    assert not again.choices
    assert second.provenance.measured == first.provenance.measured
    assert not any(choice.routine.startswith("conv.direct") for choice in second.choices.values())


def test_what_a_limit_refused_is_tried_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "softneuro")
    profile = tmp_path / "times.jsonl"
    monkeypatch.setattr(costs, "measure", Timed(fail="conv.direct", error=ResourceLimitError("too large")))
    softneuro.tune(path, threads=1, profile=profile)
    assert "failed" not in profile.read_text()
    again = Timed()
    monkeypatch.setattr(costs, "measure", again)
    softneuro.tune(path, threads=1, profile=profile)
    assert again.choices and all(choice.routine.startswith("conv.direct") for choice in again.choices)


def test_what_there_was_no_time_for_is_noted(path: Path, timed: Timed) -> None:
    plan = softneuro.tune(path, threads=1, time_limit=1e-9)
    notes = {m.note for measured in plan.provenance.measured.values() for m in measured if m.ns is None}
    assert notes == {"not measured: the time was over"} and not timed.efforts
    made = plan.provenance
    assert (made.predicted_ns, made.lower_bound_ns, made.optimal) == (None, None, False) and made.measured_ns


def test_stages_and_counts(path: Path, tmp_path: Path, timed: Timed) -> None:
    seen: list[softneuro.Progress] = []
    profile = tmp_path / "times.jsonl"
    softneuro.tune(path, threads=1, profile=profile, progress=seen.append)
    measuring = [p for p in seen if p.stage == "measure"]
    assert measuring[0].done == 0 and measuring[-1].done == measuring[-1].total == profile.read_text().count("\n")
    assert [p.done for p in measuring] == sorted(p.done for p in measuring)
    checks = [p for p in seen if p.stage == "check"]
    assert checks[0].done == 0 and (checks[-1].done, checks[-1].total) == (100, 100) and len(checks) <= 13
    assert list(dict.fromkeys(p.stage for p in seen if p.stage != "compile")) == ["import", "measure", "select", "check"]
    seen.clear()
    softneuro.tune(path, threads=1, profile=profile, progress=seen.append)
    (known,) = [p for p in seen if p.stage == "measure"]
    assert known.done == known.total == measuring[-1].total


def test_the_log_tells_the_stages(path: Path, timed: Timed, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "softneuro"):
        softneuro.tune(path, threads=1)
    text = caplog.text
    places = [text.index(word) for word in ("imported: 6 layers", "compiling", "measuring", "selected: ", "comparing")]
    assert places == sorted(places)


# ---- estimates


def two_convolutions() -> ModelProto:
    """The same convolution twice: two layers, one problem."""
    nodes = [helper.make_node("Conv", [f"t{i}", "w"], [f"t{i + 1}"], pads=[1, 1, 1, 1]) for i in range(2)]
    return model(nodes, {"t0": normal(1, 8, 10, 9)}, ["t2"], constants={"w": normal(8, 8, 3, 3) / 9})


def test_an_estimate_counts(tmp_path: Path, timed: Timed) -> None:
    proto = two_convolutions()
    request = Request.of(proto, threads=1)
    found = estimate(request)
    conv, adapt = found.ops
    assert (conv.op, conv.layers, conv.problems, conv.known) == ("conv", 2, 1, 0)
    assert adapt.op == "adapt" and conv.candidates > 5 and conv.measure_seconds > 0
    assert not timed.efforts and not list(tmp_path.iterdir())
    assert found.seconds == pytest.approx(
        found.prepare_seconds + found.compile_seconds + found.measure_seconds + found.check_seconds
    )
    profile = tmp_path / "times.jsonl"
    softneuro.tune(proto, threads=1, profile=profile)
    assert conv.candidates + adapt.candidates == len(timed.choices)
    before = profile.read_bytes()
    known = estimate(replace(request, profile=profile))
    assert [row.known for row in known.ops] == [row.candidates for row in known.ops]
    assert known.measure_seconds == known.compile_seconds == 0 and profile.read_bytes() == before


def test_an_estimate_knows_what_must_be_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request.of(two_convolutions(), threads=1)
    monkeypatch.setenv("SOFTNEURO_CACHE", str(tmp_path))
    monkeypatch.setattr("softneuro.codegen.jit._addresses", {})
    found = estimate(request)
    assert found.ops[0].kernels > 3 and found.compile_seconds > 1
    assert not list(tmp_path.iterdir())


def test_an_estimate_obeys_effort_rules_and_limits() -> None:
    proto = two_convolutions()
    whole = estimate(Request.of(proto, threads=1))
    times = [estimate(Request.of(proto, threads=1, effort=effort)).measure_seconds for effort in sorted(EFFORTS)]
    assert times == sorted(times) and times[1] == pytest.approx(whole.measure_seconds)
    fewer = estimate(Request.of(proto, threads=1, routines=["igemm"]))
    assert fewer.ops[0].candidates < whole.ops[0].candidates and fewer.measure_seconds < whole.measure_seconds
    for nothing in ({"effort": 0}, {"time_limit": 0}):
        assert estimate(Request.of(proto, threads=1, **nothing)).ops == ()


def test_a_time_limit_ends_measuring() -> None:
    row = OpEstimate("conv", 1, 1, 10, 0, 4, 2.0, 100.0)
    assert Estimate((row,)).measure_seconds == 100.0
    assert Estimate((row,), time_limit=5.0).measure_seconds == 3.0
    assert Estimate((row,), time_limit=1.0).measure_seconds == 0.0


def test_an_estimate_of_misses(tmp_path: Path) -> None:
    request = Request.of(two_convolutions(), threads=1, profile=tmp_path / "times.jsonl", error_on_miss=True)
    with pytest.raises(ProfileError, match="lacks"):
        estimate(request)
