"""The frontier of speed and loss on made-up costs: within the budget, near the best there is, never beside the point."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping

import pytest

from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.pointwise import Pointwise
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.tuning.budget import Budget
from softneuro.tuning.frontier import frontier
from softneuro.tuning.select import Case, Selection, select
from softneuro.tuning.sensitivity import own_dtypes_only
from softneuro.types import DType, Format, TensorType

F32, BF16, F16 = (Format.parse(f"{dtype}:chl") for dtype in ("f32", "bf16", "f16"))
ROW_MAJOR = Format.parse("f32:chf")
TYPE = TensorType(DType.F32, (1, 4, 3, 3))
NARROW = {DType.BF16: BF16, DType.F16: F16}


def chain(rng: random.Random, layers: int) -> tuple[Case, dict[str, dict[DType, float]]]:
    """Layers one after the other, each in three formats, and the squared error of each layer in each."""
    names = [f"t{i}" for i in range(layers + 1)]
    made = tuple(Layer(f"l{i}", Pointwise("relu(x0)"), (names[i],), (names[i + 1],)) for i in range(layers))
    graph = Graph({"t0": GraphInput(DType.F32, TYPE.shape)}, (names[-1],), made, {}, dict.fromkeys(names, TYPE))
    times = {
        layer.name: [(Choice(f"pointwise.r{f}", Signature((f,), (f,))), float(rng.randint(1, 30))) for f in (F32, BF16, F16)]
        for layer in made
    }
    errors = {layer.name: {dtype: rng.random() ** 4 * 1e-4 for dtype in NARROW} for layer in made}
    return Case(graph, times, lambda tensor, before, after: float(len(tensor))), errors


def true_loss(selection: Selection, errors: Mapping[str, Mapping[DType, float]], excess: float) -> float:
    """What a made-up model loses: the root of the sum, and more than that, as errors do not simply add."""
    dtypes = {name: choice.signature.inputs[0].dtype for name, choice in selection.choices.items()}  # type: ignore[union-attr]
    return excess * math.sqrt(sum(errors[name].get(dtype, 0.0) for name, dtype in dtypes.items()))


def cost(case: Case, choices: Mapping[str, Choice]) -> float:
    """Layers and conversions."""
    total, present = 0.0, ROW_MAJOR
    for layer in case.graph.layers:
        choice = choices[layer.name]
        total += next(ns for known, ns in case.times[layer.name] if known == choice)
        wanted = choice.signature.inputs[0]
        assert wanted is not None
        total += case.adapt_cost(layer.inputs[0], present, wanted) if wanted != present else 0.0
        present = choice.signature.outputs[0]
    return total + (case.adapt_cost(case.graph.outputs[0], present, ROW_MAJOR) if present != ROW_MAJOR else 0.0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("excess", [1.0, 1.7])
def test_points_are_what_they_say_and_hold_the_budget(seed: int, excess: float) -> None:
    case, errors = chain(random.Random(seed), 5)
    base = select([own_dtypes_only(case, 1)])[0]
    limit = 0.5 * math.sqrt(sum(min(of_layer.values()) for of_layer in errors.values()))
    budget = Budget(lambda found, exact: 0.0, limit, "")
    points = frontier([case], errors, base, 1, budget, lambda s: true_loss(s, errors, excess), lambda *standing: None)
    for point in points:
        assert point.ns == pytest.approx(cost(case, point.selection.choices))
        assert point.loss == pytest.approx(true_loss(point.selection, errors, excess))
    for slow, fast in itertools.pairwise(points):
        assert fast.ns < slow.ns and fast.loss > slow.loss
    best = min((p for p in points if budget.holds(p.loss)), key=lambda p: p.ns)
    every = itertools.product(*(case.times[layer.name] for layer in case.graph.layers))
    found = [dict(zip(case.times, (choice for choice, _ in combination), strict=True)) for combination in every]
    allowed = [cost(case, c) for c in found if true_loss(Selection(c, 0, True, 0), errors, excess) <= limit]
    assert min(allowed) - 1e-9 <= best.ns <= base.predicted_ns + 1e-9
    assert best.ns <= min(allowed) + 0.35 * (base.predicted_ns - min(allowed)) + 1e-9  # prices reach the hull, not all points


def test_without_errors_the_fastest_is_taken() -> None:
    case, errors = chain(random.Random(3), 4)
    nothing = {name: dict.fromkeys(of_layer, 0.0) for name, of_layer in errors.items()}
    base = select([own_dtypes_only(case, 1)])[0]
    budget = Budget(lambda found, exact: 0.0, 0.0, "")
    points = frontier([case], nothing, base, 1, budget, lambda s: 0.0, lambda *standing: None)
    assert [p.ns for p in points] == [pytest.approx(select([case])[0].predicted_ns)]


def test_a_loss_that_is_no_number_is_never_the_fastest_of_a_budget() -> None:
    case, errors = chain(random.Random(4), 3)
    base = select([own_dtypes_only(case, 1)])[0]
    budget = Budget(lambda found, exact: 0.0, 0.1, "")
    points = frontier([case], errors, base, 1, budget, lambda s: 0.0 if s == base else math.nan, lambda *standing: None)
    assert [p.selection for p in points if budget.holds(p.loss)] == [base]
