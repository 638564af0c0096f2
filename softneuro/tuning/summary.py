"""What a plan amounts to: how many layers and adapts, and which layers run on the host."""

from __future__ import annotations

from dataclasses import dataclass

from softneuro.codegen import target as targets
from softneuro.plan.lower import lower
from softneuro.plan.plan import Plan
from softneuro.plan.program import HostStep
from softneuro.specialise import specialise

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True)
class Summary:
    """layers and adapts that run, and the layers only the host's reference can run: name, op, measured nanoseconds."""

    layers: int
    adapts: int
    host: tuple[tuple[str, str, float | None], ...]


def summarise(plan: Plan) -> Summary:
    """Count what runs at the tuned shapes."""
    graph = specialise(plan.graph, plan.provenance.shapes)
    program = lower(graph, plan.choices, targets.host(), plan.provenance.threads, None)
    adapts = sum(1 for p in program.placed if p.name.startswith("adapt ") and len(p.steps))
    host = tuple(
        (step.layer.name, step.layer.op.name, plan.provenance.layer_ns.get(step.layer.name))
        for step in program.steps if isinstance(step, HostStep)
    )
    return Summary(sum(1 for p in program.placed if not p.name.startswith("adapt ")), adapts, host)
