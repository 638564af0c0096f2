"""Whole plans compared: errors are measured against the precise plan, and a plan that is off is not kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.graph import Layer
from softneuro.ops.pointwise import Pointwise
from softneuro.plan.plan import Choice, Plan
from softneuro.routines.routine import Signature
from softneuro.runtime import Binding
from softneuro.tuning import whole_plan
from softneuro.tuning.rounding import without_rounded_approximations
from softneuro.tuning.whole_plan import fastest_plan, output_error, precise_times

FORMATS = Signature.parse("f32:chl,->f32:chl")
ROUGH = Choice("conv.winograd43.f32.chl", FORMATS, {"nv": 1, "tiles": 4, "panels": 0})
PRECISE = Choice("conv.igemm.f32.chl", FORMATS, {"mr": 6, "nv": 1})


def plans() -> list[Plan]:
    """A plan with an approximate routine, one without, and the default."""
    base = plan_of(conv_chain())
    default = replace(base, provenance=replace(base.provenance, kept="default"))
    return [replace(base, choices={"conv1": ROUGH}), replace(base, choices={"conv1": PRECISE}), default]


def kept(monkeypatch: pytest.MonkeyPatch, allowed: float, medians: list[float]) -> Plan:
    monkeypatch.setattr(whole_plan, "MOST_OUTPUT_ERROR", allowed)
    monkeypatch.setattr(whole_plan, "_medians", lambda functions, report: medians)
    return fastest_plan(plans(), [feeds_for(conv_chain())], 1, host())


def test_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = kept(monkeypatch, 1e-3, [1.0, 2.0, 3.0])
    assert plan.choices == {"conv1": ROUGH}
    assert (plan.provenance.measured_ns, plan.provenance.default_ns) == (1.0, 3.0)


def test_a_plan_that_is_off_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = kept(monkeypatch, 0.0, [1.0, 2.0, 3.0])
    assert plan.choices == {"conv1": PRECISE}
    assert plan.provenance.measured_ns == 2.0


def test_the_default_is_kept_when_it_is_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, 1e-3, [3.0, 2.0, 1.0]).provenance.kept == "default"


def test_inputs_that_the_model_cannot_take_leave_the_precise_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(binding: Binding) -> None:
        raise InputError("layer 'x': index 1, needed 0")

    monkeypatch.setattr(Binding, "run", refuse)
    assert fastest_plan(plans(), [feeds_for(conv_chain())], 1, host()).choices == {"conv1": PRECISE}


def test_precise_times_leave_out_approximate_routines() -> None:
    graph = conv_chain(2)
    times = {"conv0": [(ROUGH, 1.0), (PRECISE, 2.0)], "conv1": [(ROUGH, 1.0)]}
    assert precise_times(times, graph) == {"conv0": [(PRECISE, 2.0)], "conv1": [(ROUGH, 1.0)]}


def test_results_that_are_rounded_come_from_no_approximate_routine() -> None:
    graph = conv_chain(2)
    last = graph.layers[-1]
    rounding = Layer("rounding", Pointwise("div(x0,0.5);round(t0);cast_u8(t1)"), last.outputs, ("whole",))
    times = {name: [(ROUGH, 1.0), (PRECISE, 2.0)] for name in ("conv0", "conv1")}
    assert without_rounded_approximations(times, graph) == times
    quantised = replace(graph, outputs=("whole",)).with_layers((*graph.layers, rounding))
    assert last.name == "conv1"
    assert without_rounded_approximations(times, quantised) == {**times, "conv1": [(PRECISE, 2.0)]}
    alone = {"conv1": [(ROUGH, 1.0)]}
    assert without_rounded_approximations(alone, quantised) == alone


@pytest.mark.parametrize(("found", "precise", "error"), [
    ([1.0, 2.0], [1.0, 2.0], 0.0),
    ([1.0, 2.5], [1.0, 2.0], 0.25),
    ([0.0, 0.0], [0.0, 0.0], 0.0),
    ([np.inf, 3.0], [np.inf, 2.0], 0.5),
    ([1, 2], [2, 1], 0.0),
])  # fmt: skip
def test_output_error(found: list[float], precise: list[float], error: float) -> None:
    kind = np.float32 if isinstance(found[0], float) else np.int64
    assert output_error({"y": np.array(found, kind)}, {"y": np.array(precise, kind)}) == pytest.approx(error)
