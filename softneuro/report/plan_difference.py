"""Where two plans differ: what they were made of and with, and what runs their layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.control import BodyOp
from softneuro.graph import Graph
from softneuro.ops.base import Op
from softneuro.ops.text import format_op
from softneuro.plan.lower import lower
from softneuro.plan.plan import Choice, Plan
from softneuro.tuning.values import plan_graph

__all__ = ["FieldDifference", "LayerDifference", "PlanDifference", "plan_difference"]

_DECIDE = ("model_sha256", "target", "threads", "shapes", "further_shapes", "values", "further_values")
"""Parts of the provenance that change what runs; the others tell how a plan was made and how fast it was then."""
_LARGE = ("layer_ns", "measured")
"""Parts that are shown with the layers, or not at all."""


@dataclass(frozen=True)
class FieldDifference:
    """A part of the interface or provenance that is not the same. decides: whether it changes what runs."""

    name: str
    here: Any
    there: Any
    decides: bool


@dataclass(frozen=True)
class LayerDifference:
    """A layer or adapt that runs in another way, or only in one of the plans (the other's choice and op are None then).

    ``*_op`` are the ops' texts, ``*_ns`` what tuning measured.
    """

    name: str
    here: Choice | None
    there: Choice | None
    here_op: str | None
    there_op: str | None
    here_ns: float | None
    there_ns: float | None


@dataclass(frozen=True)
class PlanDifference:
    """Differences of two plans, each at the shapes it was tuned for. same: layers and adapts that run in the same way.
    The totals are the sums that tuning predicted."""

    fields: tuple[FieldDifference, ...]
    layers: tuple[LayerDifference, ...]
    same: int
    here_ns: float | None
    there_ns: float | None

    @property
    def differ(self) -> bool:
        """Whether they do not run the same: times, versions and commands alone are no difference."""
        return bool(self.layers) or any(field.decides for field in self.fields)


def plan_difference(here: Plan, there: Plan, target: Target | None = None) -> PlanDifference:
    """Compare two plans layer by layer, as they run on ``target``, by default the best of this machine."""
    target = target or targets.host()
    ours, theirs = _placed(here, target), _placed(there, target)
    names = list(dict.fromkeys((*ours, *theirs)))
    apart = tuple(
        LayerDifference(name, *_pair(ours, theirs, name), here.provenance.layer_ns.get(name), there.provenance.layer_ns.get(name))
        for name in names if ours.get(name) != theirs.get(name)
    )  # fmt: skip
    return PlanDifference(
        (*_interface(here.graph, there.graph), *_provenance(here, there)), apart, len(names) - len(apart),
        here.provenance.predicted_ns, there.provenance.predicted_ns,
    )  # fmt: skip


_Placing = Mapping[str, tuple[Choice, str]]


def _placed(plan: Plan, target: Target) -> _Placing:
    """What runs for each layer and adapt, and the text of its op."""
    made = plan.provenance
    graph = plan_graph(plan)
    ops = {layer.name: layer.op for layer in graph.layers}
    found = {}
    for placed in lower(graph, plan.choices, target, made.threads, None).placed:
        op = ops.get(placed.name) or (placed.problem.op if placed.problem is not None else None)
        found[placed.name] = placed.choice, _text(op) if op is not None else ""
    return found


def _text(op: Op) -> str:
    return op.name if isinstance(op, BodyOp) else format_op(op)


def _pair(ours: _Placing, theirs: _Placing, name: str) -> tuple[Choice | None, Choice | None, str | None, str | None]:
    nothing: tuple[None, None] = None, None
    here, there = ours.get(name, nothing), theirs.get(name, nothing)
    return here[0], there[0], here[1], there[1]


def _interface(here: Graph, there: Graph) -> Iterator[FieldDifference]:
    for what, ours, theirs in (("inputs", _declared(here), _declared(there)), ("outputs", here.outputs, there.outputs)):
        if ours != theirs:
            yield FieldDifference(what, ours, theirs, True)


def _declared(graph: Graph) -> dict[str, list[Any]]:
    return {name: [str(i.dtype), None if i.shape is None else list(i.shape)] for name, i in graph.inputs.items()}


def _provenance(here: Plan, there: Plan) -> Iterator[FieldDifference]:
    for field in dataclasses.fields(here.provenance):
        ours, theirs = getattr(here.provenance, field.name), getattr(there.provenance, field.name)
        if ours != theirs and field.name not in _LARGE:
            yield FieldDifference(field.name, ours, theirs, field.name in _DECIDE)
