"""What several commands say about a plan: where its time goes, and what the search gained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softneuro.cli.console import milliseconds
from softneuro.plan.plan import Provenance
from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["LayerRow", "gain", "layer_rows"]


@dataclass(frozen=True)
class LayerRow:
    """One layer or adapt of a run: its output's type, what computes it, median nanoseconds, and the share of the total.

    predicted_ns is what tuning measured, None where it did not; gflops is None for layers without multiply-adds.
    """

    name: str
    output: str
    routine: str
    formats: str
    ns: float
    share: float
    predicted_ns: float | None
    gflops: float | None


def layer_rows(session: Session, feeds: Mapping[str, Array], repeat: int) -> list[LayerRow]:
    """Run the plan ``repeat`` times; one row for each layer and adapt, in the order they run."""
    times = dict(session.profile(feeds, repeat))
    total = sum(times.values()) or 1.0
    predicted = session.plan.provenance.layer_ns
    rows = []
    for item in session.linked({name: array.shape for name, array in feeds.items()}).program.placed:
        ns, problem = times[item.name], item.problem
        output = str(problem.outputs[0]) if problem else "?"
        numbers = ",".join(f"{key}{value}" for key, value in item.choice.schedule.items())
        rate = 2 * problem.macs() / ns if problem and problem.macs() and ns else None
        rows.append(LayerRow(
            item.name, output, f"{item.choice.routine} {numbers}".strip(), str(item.choice.signature), ns, ns / total,
            predicted.get(item.name), rate,
        ))  # fmt: skip
    return rows


def gain(made: Provenance) -> str:
    """What the search found, and what it gained over the default plan; empty when nothing was measured."""
    if made.measured_ns is None:
        return ""
    measured = f"measured {milliseconds(made.measured_ns)}"
    proof = "proved optimal" if made.optimal else f"bound {milliseconds(made.lower_bound_ns)}"
    if made.kept == "default":
        return f"{measured}, the default plan: none was faster (selection {proof})"
    default = "could not be run" if made.default_ns is None else (
        f"{milliseconds(made.default_ns)} ({made.default_ns / made.measured_ns:.2f}x)")
    return f"{measured}, predicted {milliseconds(made.predicted_ns)} ({proof}), default plan {default}"
