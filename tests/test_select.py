"""Selection against brute force: layers, shared conversions, fan-out and joins."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.pointwise import Pointwise
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.tuning.select import Case, select
from softneuro.types import DType, Format, TensorType

CHF, CHL = Format.parse("f32:chf"), Format.parse("f32:chl")
TYPE = TensorType(DType.F32, (1, 4, 3, 3))
Times = Mapping[str, Sequence[tuple[Choice, float]]]


def random_case(rng: random.Random, layers: int) -> tuple[Graph, Times, dict[tuple[str, Format, Format], float]]:
    """A random graph (fan-out and joins), up to four candidates for each layer, random adapt costs."""
    tensors = ["x"]
    made, times = [], {}
    for i in range(layers):
        sources = tuple(rng.choice(tensors) for _ in range(rng.choice((1, 1, 2))))
        made.append(Layer(f"l{i}", Pointwise("relu(x0)"), sources, (f"t{i}",)))
        tensors.append(f"t{i}")
        candidates = []
        for number in range(rng.randint(1, 4)):
            formats = tuple(rng.choice((CHF, CHL)) for _ in sources)
            signature = Signature(formats, (rng.choice((CHF, CHL)),))
            candidates.append((Choice(f"r{number}", signature), float(rng.randint(1, 20))))
        times[f"l{i}"] = candidates
    outputs = tuple({tensors[-1], rng.choice(tensors[1:])})
    graph = Graph({"x": GraphInput(DType.F32, TYPE.shape)}, outputs, tuple(made), {}, dict.fromkeys(tensors, TYPE))
    costs = {(t, a, b): float(rng.randint(0, 15)) for t in tensors for a, b in ((CHF, CHL), (CHL, CHF))}
    return graph, times, costs


def total(graph: Graph, chosen: Mapping[str, tuple[Choice, float]], costs: Mapping[tuple[str, Format, Format], float]) -> float:
    """The cost of an assignment, each conversion of a tensor to a format counted once."""
    made = {"x": CHF}
    conversions = set()
    value = 0.0
    for layer in graph.layers:
        choice, ns = chosen[layer.name]
        value += ns
        for name, wanted in zip(layer.inputs, choice.signature.inputs, strict=True):
            if wanted != made[name]:
                conversions.add((name, made[name], wanted))
        made[layer.outputs[0]] = choice.signature.outputs[0]
    for name in graph.outputs:
        if made[name] != CHF:
            conversions.add((name, CHL, CHF))
    return value + sum(costs[c] for c in conversions)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), layers=st.integers(1, 5))
def test_equals_brute_force(seed: int, layers: int) -> None:
    graph, times, costs = random_case(random.Random(seed), layers)
    everything = sorted(
        total(graph, dict(zip(times, combination, strict=True)), costs) for combination in itertools.product(*times.values())
    )
    best, *_ = select([Case(graph, times, lambda t, a, b: costs[t, a, b])])
    assert best.optimal
    assert best.predicted_ns == pytest.approx(everything[0])
    chosen = {name: next((c, ns) for c, ns in times[name] if c == best.choices[name]) for name in times}
    assert total(graph, chosen, costs) == pytest.approx(everything[0])


def test_conversion_is_charged_once_for_many_consumers() -> None:
    """Three consumers want another format: one conversion of 10 beats three producers' 12."""
    layers = [Layer("p", Pointwise("relu(x0)"), ("x",), ("t",))]
    layers += [Layer(f"c{i}", Pointwise("relu(x0)"), ("t",), (f"y{i}",)) for i in range(3)]
    types = dict.fromkeys(["x", "t", "y0", "y1", "y2"], TYPE)
    graph = Graph({"x": GraphInput(DType.F32, TYPE.shape)}, ("y0", "y1", "y2"), tuple(layers), {}, types)
    to_chl, stay = Signature((CHF,), (CHL,)), Signature((CHF,), (CHF,))
    back = Signature((CHL,), (CHF,))
    times: Times = {
        "p": [(Choice("slow", to_chl), 12.0), (Choice("fast", stay), 1.0)],
        **{f"c{i}": [(Choice("chl", back), 1.0), (Choice("chf", stay), 5.0)] for i in range(3)},
    }
    best, *_ = select([Case(graph, times, lambda *_: 10.0)])
    assert best.predicted_ns == 1.0 + 10.0 + 3 * 1.0
    assert {best.choices[f"c{i}"].routine for i in range(3)} == {"chl"}


def test_runners_up_are_distinct_and_in_order() -> None:
    graph, times, costs = random_case(random.Random(7), 5)
    found = select([Case(graph, times, lambda t, a, b: costs[t, a, b])], 3)
    values = [s.predicted_ns for s in found]
    assert values == sorted(values)
    assert len({tuple(sorted((n, str(c)) for n, c in s.choices.items())) for s in found}) == len(found)


def test_runners_up_differ_in_a_layer_that_takes_time() -> None:
    """Layers that cost nothing in either format, and conversions that cost nothing, make no runner-up."""
    layers = [Layer("p", Pointwise("relu(x0)"), ("x",), ("t0",))]
    layers += [Layer(f"v{i}", Pointwise("relu(x0)"), (f"t{i}",), (f"t{i + 1}",)) for i in range(3)]
    types = dict.fromkeys(["x", *(f"t{i}" for i in range(4))], TYPE)
    graph = Graph({"x": GraphInput(DType.F32, TYPE.shape)}, ("t3",), tuple(layers), {}, types)
    both = [(Choice("view", Signature((f,), (f,))), 0.0) for f in (CHF, CHL)]
    made = [(Choice(f"{f}", Signature((CHF,), (f,))), ns) for f, ns in ((CHF, 5.0), (CHL, 7.0))]
    times: Times = {"p": made, **{f"v{i}": both for i in range(3)}}
    found = select([Case(graph, times, lambda *_: 0.0)], 3)
    assert [(s.choices["p"].routine, s.predicted_ns) for s in found] == [("f32:chf", 5.0), ("f32:chl", 7.0)]


def test_ten_layers_per_block_with_residuals_is_proved_optimal_quickly() -> None:
    graph, times, costs = random_case(random.Random(3), 12)
    best, *_ = select([Case(graph, times, lambda t, a, b: costs[t, a, b])])
    assert best.optimal
    assert best.lower_bound_ns == pytest.approx(best.predicted_ns)
