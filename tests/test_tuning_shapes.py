"""Tuning for several sets of shapes: what layers may run with, the mean as the aim, and plans that hold at every set."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import conv_chain
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_build import model, normal
from test_select import CHF, CHL, random_case, total

import softneuro
from softneuro import reference
from softneuro.codegen import target as targets
from softneuro.errors import InputError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.importer.model import import_model
from softneuro.ops.conv import Conv
from softneuro.ops.pointwise import Pointwise
from softneuro.plan.lower import fitted, lower, problem_of
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.routine import Signature
from softneuro.specialise import specialise
from softneuro.tuning import costs
from softneuro.tuning.costs import Costs
from softneuro.tuning.measure import EFFORTS
from softneuro.tuning.offers import offers_of
from softneuro.tuning.profile import Measurement, Profile
from softneuro.tuning.request import shape_sets
from softneuro.tuning.restrict import parse_rule
from softneuro.tuning.select import Case, select
from softneuro.types import DType, TensorType
from tests.cli_harness import write_model

HOST = targets.host()

# ---- sets from pairs


@pytest.mark.parametrize(("pairs", "sets"), [
    ([], [{}]),
    ([("a", (1, 3))], [{"a": (1, 3)}]),
    ([("a", (1, 3)), ("b", (5,))], [{"a": (1, 3), "b": (5,)}]),
    ([("a", (1, 3)), ("a", (2, 3)), ("b", (5,))], [{"a": (1, 3), "b": (5,)}, {"a": (2, 3), "b": (5,)}]),
    ([("b", (5,)), ("a", (1,)), ("a", (2,)), ("b", (6,)), ("a", (3,))], [
        {"b": (5,), "a": (1,)}, {"b": (6,), "a": (2,)}, {"b": (6,), "a": (3,)},
    ]),
    ([("a", ()), ("a", ())], [{"a": ()}, {"a": ()}]),
], ids=["none", "one", "two_inputs", "last_sizes_stay", "any_order", "scalars"])  # fmt: skip
def test_shape_sets(pairs: list[tuple[str, tuple[int, ...]]], sets: list[dict[str, tuple[int, ...]]]) -> None:
    assert shape_sets(pairs) == sets


# ---- what layers may run with


def chain_at(*heights: int) -> list[Graph]:
    graph = conv_chain(2, height="h")
    return [specialise(graph, {"t0": (1, 8, height, 5)}) for height in heights]


def test_offers_hold_at_every_set() -> None:
    graphs = chain_at(6, 19, 1)
    offers = offers_of(graphs, HOST, 1)
    assert list(offers) == ["conv0", "conv1"]
    for name, offer in offers.items():
        problems = [problem_of(layer, graph, 1) for graph in graphs for layer in graph.layers if layer.name == name]
        assert list(offer.problems) == problems and offer.choices
        for problem in problems:
            assert problem is not None
            assert all(fitted(choice, problem, HOST) == choice for choice in offer.choices)


def test_offers_of_one_set_are_its_candidates_in_order() -> None:
    (alone,) = chain_at(6)
    twice = chain_at(6, 6)
    assert offers_of([alone], HOST, 1)["conv0"].choices == offers_of(twice, HOST, 1)["conv0"].choices


def test_a_set_with_nothing_in_common_is_left_to_the_default() -> None:
    graph = replace(conv_chain(2), inputs={"t0": GraphInput(DType.F32, ("n", 8, 6, 5))})
    graphs = [specialise(graph, {"t0": (batch, 8, 6, 5)}) for batch in (1, 0)]  # nothing is computed for no samples
    offers = offers_of(graphs, HOST, 1)
    for name, offer in offers.items():
        assert offer.problems[1] is None and offer.choices == offers_of(graphs[:1], HOST, 1)[name].choices


def test_a_layer_that_one_set_does_not_have() -> None:
    both, short = chain_at(6), chain_at(9)
    without = [replace(short[0], layers=short[0].layers[:1], outputs=("t1",))]
    offers = offers_of([*both, *without], HOST, 1)
    assert offers["conv1"].problems[1] is None and offers["conv0"].problems[1] is not None


def test_rules_hold_for_what_all_sets_offer() -> None:
    offers = offers_of(chain_at(6, 19), HOST, 1, [parse_rule("igemm@conv0")])
    assert {choice.routine for choice in offers["conv0"].choices} == {"conv.igemm.f32.chl"}
    assert len({choice.routine for choice in offers["conv1"].choices}) > 1


# ---- costs


def costs_at(graphs: Sequence[Graph], known: Mapping[str, Measurement] | None = None) -> Costs:
    profile = Profile(HOST)
    for key, measurement in (known or {}).items():
        profile.add(key, measurement)
    return Costs(graphs, offers_of(graphs, HOST, 1), HOST, 1, profile)


def measured(graphs: Sequence[Graph], ns: Any) -> Costs:
    """Costs with a time for every candidate: ns(problem, choice)."""
    blank = costs_at(graphs)
    known = {
        key: Measurement(ns(bench.problem, choice))
        for bench in blank.benches for key, choice in zip(bench.keys, bench.choices, strict=True)
    }  # fmt: skip
    return costs_at(graphs, known)


def rows(problem: Problem) -> int:
    return problem.outputs[0].shape[2]


def test_times_are_means_over_the_sets() -> None:
    found = measured(chain_at(6, 10), lambda problem, choice: 100.0 * rows(problem))
    choices = {name: site.choices[0] for name, site in found.layers.items()}
    assert found.chosen_ns(choices) == {"conv0": 800.0, "conv1": 800.0}
    cases = found.cases()
    assert [case.times["conv0"][0][1] for case in cases] == [600.0, 1000.0]
    assert select(cases)[0].predicted_ns >= 2 * 800.0
    found.require_known()


def test_a_choice_that_is_best_in_the_mean_wins() -> None:
    """igemm is a little slower at one set and much faster at the other."""

    def ns(problem: Problem, choice: Choice) -> float:
        if not isinstance(problem.op, Conv):
            return 0.0
        fast = {"conv.igemm.f32.chl": {6: 120.0, 19: 500.0}, "conv.direct.f32.chf": {6: 100.0, 19: 900.0}}
        return fast.get(choice.routine, {}).get(rows(problem), 5000.0)

    first, both = measured(chain_at(6), ns), measured(chain_at(6, 19), ns)
    alone, together = select(first.cases())[0], select(both.cases())[0]
    assert {choice.routine for choice in alone.choices.values()} == {"conv.direct.f32.chf"}
    assert {choice.routine for choice in together.choices.values()} == {"conv.igemm.f32.chl"}
    assert together.predicted_ns == 2 * (120.0 + 500.0) / 2 and together.optimal


def test_what_fails_at_one_set_is_left_out_everywhere() -> None:
    found = measured(chain_at(6, 19), lambda problem, choice: 10.0)
    site = found.layers["conv0"]
    spoiled = site.choices[0]
    bench = next(bench for bench in site.benches if bench and rows(bench.problem) == 19)
    index = bench.choices.index(spoiled)
    del bench.times[index]
    bench.failed[index] = "it gives a wrong result"
    assert found.failed({"conv0": spoiled}) and not found.failed({"conv0": site.choices[1]})
    assert spoiled not in [choice for choice, _ in site.timed()]
    assert all(spoiled not in [choice for choice, _ in case.times["conv0"]] for case in found.cases())
    assert site.default() == site.choices[1]
    (note,) = {m.note for m in found.measured()[bench.problem.key()] if m.note}
    assert note == "it gives a wrong result"


def test_a_set_that_was_not_measured_counts_nothing() -> None:
    graphs = chain_at(6, 19)
    blank = costs_at(graphs)
    known = {
        key: Measurement(7.0) for bench in blank.benches if rows(bench.problem) == 6 for key in bench.keys
    }  # fmt: skip
    found = costs_at(graphs, known)
    assert [case.times["conv0"][0][1] for case in found.cases()] == [7.0, 0.0]
    assert [case.times["conv0"][0][1] for case in blank.cases()] == [0.0, 0.0]
    assert {m.note for bench in found.measured().values() for m in bench if m.ns is None} == {"not measured: the time was over"}


# ---- the search


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), layers=st.integers(1, 4), sets=st.integers(1, 3))
def test_the_mean_over_the_sets_is_least(seed: int, layers: int, sets: int) -> None:
    """Against brute force: the same graph, other times and conversion costs at every set."""
    rng = random.Random(seed)
    graph, times, _ = random_case(rng, layers)
    cases, tables = [], []
    for _ in range(sets):
        own = {name: [(choice, float(rng.randint(1, 20))) for choice, _ in pairs] for name, pairs in times.items()}
        adapts = {(t, a, b): float(rng.randint(0, 15)) for t in graph.types for a, b in ((CHF, CHL), (CHL, CHF))}
        cases.append(Case(graph, own, lambda t, a, b, adapts=adapts: adapts[t, a, b]))
        tables.append((own, adapts))
    names = list(times)
    least = min(
        sum(total(graph, {n: own[n][i] for n, i in zip(names, picks, strict=True)}, adapts) for own, adapts in tables) / sets
        for picks in itertools.product(*(range(len(times[n])) for n in names))
    )
    best, *_ = select(cases)
    assert best.optimal and best.predicted_ns == pytest.approx(least)


def test_sets_with_other_consumers() -> None:
    """A consumer that only the second set has makes its conversion worth a slower producer there and nowhere else."""
    types = {name: TensorType(DType.F32, (1, 4, 3, 3)) for name in ("x", "t", "y")}
    make, use = Layer("p", Pointwise("relu(x0)"), ("x",), ("t",)), Layer("c", Pointwise("relu(x0)"), ("t",), ("y",))
    inputs = {"x": GraphInput(DType.F32, (1, 4, 3, 3))}
    with_use = Graph(inputs, ("t", "y"), (make, use), {}, types)
    without = Graph(inputs, ("t",), (make,), {}, types)
    producers = [(Choice("chf", Signature((CHF,), (CHF,))), 1.0), (Choice("chl", Signature((CHF,), (CHL,))), 1.5)]
    consumers = [(Choice("chl", Signature((CHL,), (CHF,))), 1.0)]
    first = Case(without, {"p": producers}, lambda *_: 10.0)
    second = Case(with_use, {"p": producers, "c": consumers}, lambda *_: 10.0)
    best, *_ = select([first, second])
    # chf: 1 and 1 + 10 (to chl) + 1; chl: 1.5 + 10 (the output) and 1.5 + 10 (the output) + 1
    assert best.choices["p"].routine == "chf" and best.predicted_ns == (1.0 + 12.0) / 2


# ---- whole tunings


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure as little as can be."""
    effort = replace(EFFORTS[1], blocks=1, short_ns=1, block_ns=1)
    original = costs.measure
    monkeypatch.setattr(costs, "measure", lambda *args, **options: original(*args, **{**options, "effort": effort}))


@pytest.mark.parametrize("batch", ["n", 1], ids=["free_batch", "declared_batch"])
def test_a_plan_for_two_batches(tmp_path: Path, quick: None, batch: int | str) -> None:
    path = write_model(tmp_path / "model.onnx", batch=batch)
    plan = softneuro.tune(path, threads=1, shapes=[{"x": (1, 3, 6, 5)}, {"x": (4, 3, 6, 5)}], routines=["!reference"])
    made = plan.provenance
    assert made.shapes == {"x": (1, 3, 6, 5)} and made.further_shapes == ({"x": (4, 3, 6, 5)},)
    assert made.measured_ns is not None and made.measured
    assert {text.split(" -> ")[1].split("[")[1][0] for text in made.measured} == {"1", "4"}
    free = import_model(path, shapes={"x": (None, 3, 6, 5)})
    session = softneuro.Session(plan)
    for size in (1, 4):
        graph = specialise(plan.graph, {"x": (size, 3, 6, 5)})
        for placed in lower(graph, plan.choices, HOST, 1, None).placed:
            assert placed.choice == plan.choices[placed.name]
        feeds = {"x": normal(size, 3, 6, 5)}
        np.testing.assert_allclose(session.run(feeds)["y"], reference.run(free, feeds)["y"], rtol=1e-4, atol=1e-4)
    plan.save(tmp_path / "a.plan")
    again = softneuro.Plan.load(tmp_path / "a.plan").provenance
    assert (again.shapes, again.further_shapes, again.measured) == (made.shapes, made.further_shapes, made.measured)


def test_sets_may_name_different_inputs(quick: None) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    proto = model(nodes, {"a": normal(2, 3), "b": normal(1, 3)}, ["y"], declared=False)
    plan = softneuro.tune(proto, threads=1, shapes=[{"a": (2, 3), "b": (1, 3)}, {"a": (1, 7)}])
    assert plan.provenance.further_shapes == ({"a": (1, 7), "b": (1, 1)},)
    assert softneuro.Session(plan).run({"a": normal(5, 3), "b": normal(1, 3)})["y"].shape == (5, 3)


@pytest.mark.parametrize(("sets", "message"), [
    ([{"x": (1, 3, 6, 5)}, {"x": (1, 3, 6)}], "needed the same rank in all sets"),
    ([{"x": (1, 3, 6, 5)}, {"z": (1, 3, 6, 5)}], "'z'"),
    ([{"x": (1, 3, 6, 5)}, {"x": (1, 4, 6, 5)}], "4"),
], ids=["rank", "name", "channels"])  # fmt: skip
def test_sets_that_do_not_fit(tmp_path: Path, sets: list[dict[str, tuple[int, ...]]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        softneuro.tune(write_model(tmp_path / "model.onnx"), threads=1, shapes=sets, effort=0)
    assert message in str(caught.value)


def test_no_set_at_all_is_one(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx")
    assert softneuro.tune(path, threads=1, shapes=[], effort=0).provenance.shapes == {"x": (1, 3, 6, 5)}
