"""What a plan amounts to: how many layers and adapts, and which layers run on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softneuro.codegen import target as targets
from softneuro.plan.lower import lower
from softneuro.plan.plan import Plan, Provenance
from softneuro.plan.program import HostStep
from softneuro.tuning.values import plan_graph
from softneuro.types import Shape

__all__ = ["HostLayer", "Summary", "made_data", "summarise"]


@dataclass(frozen=True)
class HostLayer:
    """A layer that only the host's reference can run, with the nanoseconds that were measured, if they were."""

    name: str
    op: str
    ns: float | None


@dataclass(frozen=True)
class Summary:
    """layers and adapts that run at the first set of shapes, and the layers that run on the host."""

    layers: int
    adapts: int
    host: tuple[HostLayer, ...]


def summarise(plan: Plan) -> Summary:
    """Count what runs at the tuned shapes and values."""
    graph = plan_graph(plan)
    program = lower(graph, plan.choices, targets.host(), plan.provenance.threads, None)
    adapts = sum(1 for p in program.placed if p.name.startswith("adapt ") and len(p.steps))
    host = tuple(
        HostLayer(step.layer.name, step.layer.op.name, plan.provenance.layer_ns.get(step.layer.name))
        for step in program.steps if isinstance(step, HostStep)
    )
    return Summary(sum(1 for p in program.placed if not p.name.startswith("adapt ")), adapts, host)


def made_data(plan: Plan, summary: Summary) -> dict[str, Any]:
    """A plan's origin and a summary of it as plain data, without the candidates."""
    made: Provenance = plan.provenance
    candidates = [candidate for of_problem in made.measured.values() for candidate in of_problem]
    return {
        "model": made.model, "model_sha256": made.model_sha256, "machine": made.machine, "target": made.target,
        "version": made.version, "packages": dict(made.packages), "command": made.command, "threads": made.threads,
        "shapes": [_plain(shapes) for shapes in (made.shapes, *made.further_shapes)],
        "values": [dict(values) for values in (made.values, *made.further_values)],
        "layers": summary.layers, "adapts": summary.adapts,
        "host_layers": [{"layer": host.name, "op": host.op, "ns": host.ns} for host in summary.host],
        "problems": len(made.measured), "candidates": len(candidates),
        "candidates_failed_or_skipped": sum(candidate.ns is None for candidate in candidates),
        "kept": made.kept or "default", "measured_ns": made.measured_ns, "default_ns": made.default_ns,
        "loss": made.loss, "budget": made.budget, "frontier": [point._asdict() for point in made.frontier],
        "float_ns": made.float_ns,
        "predicted_ns": made.predicted_ns, "lower_bound_ns": made.lower_bound_ns, "optimal": made.optimal,
    }  # fmt: skip


def _plain(shapes: Mapping[str, Shape]) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in shapes.items()}
