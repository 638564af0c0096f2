"""Where the time of a run goes, a row for each layer and adapt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["LayerRow", "layer_rows"]


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
