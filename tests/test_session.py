"""Sessions: right results, concurrent use, bindings, many shapes, and clear errors."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of

from softneuro import reference
from softneuro.codegen import target as targets
from softneuro.errors import InputError
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.runtime import Session

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_run_equals_reference(threads: int) -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    outputs = Session(plan_of(graph), threads).run(feeds)
    np.testing.assert_allclose(outputs["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)


def test_run_as_onnxruntime_is_used() -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    session = Session(plan_of(graph))
    (by_all,) = session.run(None, feeds)
    (by_name,) = session.run(["t3"], feeds)
    np.testing.assert_array_equal(by_all, by_name)
    with pytest.raises(InputError, match="output 'nope' is not one of the model's: needed 't3'"):
        session.run(["nope"], feeds)


@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_runs_from_eight_threads(threads: int) -> None:
    graph = conv_chain()
    session = Session(plan_of(graph), threads)
    inputs = [feeds_for(graph, seed=seed) for seed in range(8)]
    expected = [reference.run(graph, feeds)["t3"] for feeds in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for got, want in zip(pool.map(session.run, inputs), expected, strict=True):
                np.testing.assert_allclose(got["t3"], want, **TOLERANCE)


def test_new_shapes_are_specialised_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = conv_chain(height="h")
    session = Session(plan_of(graph))
    session.run(feeds_for(graph, height=6))
    monkeypatch.setitem(sys.modules, "softneuro.codegen.compile", None)  # importing it now would fail
    for height in range(1, 20):
        feeds = feeds_for(graph, height=height)
        np.testing.assert_allclose(session.run(feeds)["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)
    assert len(session._specialisations._made) <= 8


def test_results_are_fresh_arrays() -> None:
    graph = conv_chain()
    session = Session(plan_of(graph))
    first = session.run(feeds_for(graph, seed=1))["t3"]
    kept = first.copy()
    session.run(feeds_for(graph, seed=2))
    np.testing.assert_array_equal(first, kept)


def test_binding_reads_and_writes_in_place() -> None:
    graph = conv_chain()
    feeds = feeds_for(graph, seed=1)
    session = Session(plan_of(graph))
    result = np.empty((1, 8, 6, 5), np.float32)
    binding = session.bind(feeds, {"t3": result})
    binding.run()
    np.testing.assert_allclose(result, reference.run(graph, feeds)["t3"], **TOLERANCE)
    feeds["t0"][...] = feeds_for(graph, seed=2)["t0"]
    binding.run()
    np.testing.assert_allclose(result, reference.run(graph, feeds)["t3"], **TOLERANCE)
    assert np.shares_memory(binding.outputs["t3"], result)


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f.pop("t0"), "input 't0' is missing: needed 't0'"),
    (lambda f: f.update(x=np.zeros(1, np.float32)), "input 'x' is not one of the model's: needed 't0'"),
    (lambda f: f.update(t0=np.zeros((1, 8, 6, 5))), "input 't0': found data type float64, needed float32"),
    (lambda f: f.update(t0=np.zeros((1, 8, 6), np.float32)), r"input 't0': found shape \(1, 8, 6\) of rank 3, needed 1x8x6x5"),
    (lambda f: f.update(t0=np.zeros((1, 7, 6, 5), np.float32)), r"input 't0': found shape \(1, 7, 6, 5\), needed 1x8x6x5"),
])  # fmt: skip
def test_wrong_feeds_say_found_and_needed(change, message: str) -> None:  # type: ignore[no-untyped-def]
    graph = conv_chain()
    feeds = feeds_for(graph)
    change(feeds)
    with pytest.raises(InputError, match=message):
        Session(plan_of(graph)).run(feeds)


def test_output_array_of_another_shape_is_refused() -> None:
    graph = conv_chain()
    with pytest.raises(InputError, match="needed a writeable C-contiguous float32 array"):
        Session(plan_of(graph)).bind(feeds_for(graph), {"t3": np.empty((1, 8, 5, 6), np.float32)})


def test_inputs_need_not_be_contiguous() -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    turned = {"t0": np.ascontiguousarray(feeds["t0"].transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)}
    session = Session(plan_of(graph))
    np.testing.assert_array_equal(session.run(turned)["t3"], session.run(feeds)["t3"])


@pytest.mark.parametrize("make", [targets.host, targets.baseline], ids=["host", "narrowest"])
def test_narrower_targets_give_the_same(make) -> None:  # type: ignore[no-untyped-def]
    if make is targets.baseline and not targets.host().triple.startswith("x86_64"):
        pytest.skip("an x86-64 target")
    graph = conv_chain()
    feeds = feeds_for(graph)
    outputs = Session(plan_of(graph), target=make()).run(feeds)
    np.testing.assert_allclose(outputs["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)


def test_profile_names_every_layer_and_adapt() -> None:
    graph = conv_chain()
    rows = Session(plan_of(graph)).profile(feeds_for(graph), repeat=2)
    names = [name for name, _ in rows]
    assert [n for n in names if not n.startswith("adapt ")] == ["conv0", "conv1", "conv2"]
    assert all(ns >= 0 for _, ns in rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_team_works_in_a_forked_child() -> None:
    graph = conv_chain()
    feeds = feeds_for(graph)
    session = Session(plan_of(graph), 2)
    expected = session.run(feeds)["t3"]
    child = os.fork()
    if child == 0:
        same = np.array_equal(session.run(feeds)["t3"], expected)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_plan_of_another_instruction_set_runs_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    graph = conv_chain()
    plan = plan_of(graph)
    choice = Choice("conv.igemm.f32.chl", Signature.parse("f32:chl,->f32:chl"), {"mr": 60, "nv": 9})
    other = replace(plan, choices={"conv0": choice}, provenance=replace(plan.provenance, target="something"))
    session = Session(other)
    assert "the plan was tuned for something and runs on" in caplog.text
    feeds = feeds_for(graph)
    np.testing.assert_allclose(session.run(feeds)["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)
    (first,) = [p for p in session.linked({"t0": (1, 8, 6, 5)}).program.placed if p.name == "conv0"]
    assert first.choice.routine == "conv.igemm.f32.chl"
    assert first.choice.schedule["mr"] < 60


@pytest.mark.parametrize("schedule", [{}, {"mr": 6}, {"mr": -1, "nv": 1}, {"mr": 10**6, "nv": 1}, {"mr": 6, "nv": 1, "x": 0}])
def test_schedules_that_the_routine_does_not_know_are_replaced(schedule: dict[str, int]) -> None:
    graph = conv_chain()
    choice = Choice("conv.igemm.f32.chl", Signature.parse("f32:chl,->f32:chl"), schedule)
    session = Session(replace(plan_of(graph), choices={"conv0": choice}))
    feeds = feeds_for(graph)
    np.testing.assert_allclose(session.run(feeds)["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)


@pytest.mark.parametrize(("routine", "signature"), [
    ("conv.nothing.f32.chl", "f32:chl,->f32:chl"),
    ("conv.igemm.f32.chl", "f32:chf,->f32:chl"),
    ("pool.window.f32.chl", "f32:chl>f32:chl"),
])  # fmt: skip
def test_choices_that_do_not_exist_fall_back_to_the_default(routine: str, signature: str) -> None:
    graph = conv_chain()
    session = Session(replace(plan_of(graph), choices={"conv0": Choice(routine, Signature.parse(signature))}))
    feeds = feeds_for(graph)
    np.testing.assert_allclose(session.run(feeds)["t3"], reference.run(graph, feeds)["t3"], **TOLERANCE)
