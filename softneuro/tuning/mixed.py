"""Plans of mixed data types: the fastest selection whose loss, measured on samples, stays within a budget."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from softneuro.codegen.target import Target
from softneuro.graph import Graph
from softneuro.plan.plan import Choice, Tradeoff
from softneuro.tuning.budget import Budget
from softneuro.tuning.costs import Costs
from softneuro.tuning.frontier import Point, frontier
from softneuro.tuning.progress import Progress, Report
from softneuro.tuning.select import Selection, select
from softneuro.tuning.sensitivity import choice_dtypes, own_dtypes_only, sensitivities
from softneuro.tuning.trials import Trials
from softneuro.tuning.whole_plan import precise_times
from softneuro.types import Array

__all__ = ["Mixed", "mixed_selection"]

_log = logging.getLogger(__name__)
_SENSITIVITY_SAMPLES = 4


@dataclass(frozen=True)
class Mixed:
    """chosen: the fastest point within the budget, float32 where no other is; points: the frontier, the slowest first;
    tradeoffs: the same for a plan to keep."""

    chosen: Point
    points: tuple[Point, ...]
    tradeoffs: tuple[Tradeoff, ...]


def mixed_selection(graph: Graph, costs: Costs, samples: Sequence[Mapping[str, Array]], budget: Budget, target: Target,
                    threads: int, report: Report) -> Mixed:
    """Search speed against loss.

    samples: inputs on which errors are measured; the first few serve for single layers, all of them for whole selections.
    The reference is the best selection of float32 without approximate routines, on the same samples.
    """
    cases = costs.cases()
    own = [own_dtypes_only(case, threads) for case in cases]
    precise = select([replace(case, times=precise_times(case.times, case.graph)) for case in own])[0]
    few = Trials(graph, samples[:_SENSITIVITY_SAMPLES], target, threads)

    def choices_of(selection: Selection) -> Mapping[str, Choice]:
        return {**selection.choices, **costs.adapt_choices(selection.choices)}

    errors = sensitivities(cases[0], choices_of(precise), few, few.outputs(choices_of(precise)), threads,
                           lambda done, total, what: report(Progress("sensitivity", done, total, what)))  # fmt: skip
    trials = Trials(graph, samples, target, threads)
    exact = trials.outputs(choices_of(precise))
    points = frontier(
        cases, errors, select(own)[0], threads, budget,
        lambda selection: budget.loss(trials.outputs(choices_of(selection)), exact),
        lambda done, total, what: report(Progress("frontier", done, total, what)),
    )  # fmt: skip
    within = [point for point in points if budget.holds(point.loss)]
    chosen = min(within, key=lambda point: point.ns) if within else points[0]
    for point in points:
        _log.info("%.4g ms, loss %.3g%s", point.ns / 1e6, point.loss, ", chosen" if point is chosen else "")
    kept = [Tradeoff(point.ns, point.loss, _weight_bytes(cases[0].graph, point.selection, threads)) for point in points
            if math.isfinite(point.loss)]  # fmt: skip
    return Mixed(chosen, tuple(points), tuple(kept))


def _weight_bytes(graph: Graph, selection: Selection, threads: int) -> int:
    """Bytes of the layers' float32 constants in the data types that they are multiplied in."""
    kept_as = choice_dtypes(graph, threads)
    total = 0
    for layer in graph.layers:
        choice = selection.choices.get(layer.name)
        size = min((dtype.itemsize for dtype in (kept_as(layer.name, choice) if choice else ())), default=4)
        total += sum(size * graph.constants[name].size for name in layer.inputs if name in graph.constants)
    return total
