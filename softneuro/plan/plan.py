"""The plan: an optimised graph, a choice for each layer, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softneuro.graph import Graph
from softneuro.limits import ResourceLimits
from softneuro.routines.routine import Schedule, Signature
from softneuro.types import Shape

__all__ = ["Choice", "Measured", "Plan", "Provenance", "Tradeoff", "adapt_name"]


@dataclass(frozen=True)
class Choice:
    """The routine, formats and schedule that a layer runs with."""

    routine: str
    signature: Signature
    schedule: Schedule = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = ",".join(f"{k}={v}" for k, v in self.schedule.items())
        return f"{self.routine}{{{numbers}}} {self.signature}"


class Measured(NamedTuple):
    """A candidate of a problem as tuning found it: median nanoseconds and relative spread of the blocks' minima.

    ns is None for a candidate that was not timed; note says why (it failed, or there was no time left).
    """

    routine: str
    formats: str
    schedule: Schedule
    ns: float | None
    spread: float = 0.0
    note: str = ""


class Tradeoff(NamedTuple):
    """A point of the frontier between speed and accuracy: the sum of measured times of a selection, what its outputs lose
    on the samples, and bytes of the weights as they are kept."""

    ns: float
    loss: float
    nbytes: int


@dataclass(frozen=True)
class Provenance:
    """What a plan was made from and with, and what was measured then.

    Times are nanoseconds of one inference, None where nothing was measured. kept: which plan won when the whole
    plans were timed, ``selected`` (or one of its runners-up), ``mixed`` or ``default``; float_ns: the fastest without mixed
    data types, where those were allowed. optimal: the selection was proved to be
    the least sum of measured times; lower_bound_ns is the proved bound; predicted_ns the sum for the kept selection; none of
    them is known when there was no time to measure all candidates.
    model: the name of the model's file, without its folder. shapes: the input sizes that were tuned for, the first set
    where there were several, the others in further_shapes (times are then means over all sets). ranges: where ranges of
    sizes were asked for, what was asked (``1x3x224..640x224..640`` by input); the sets stand for them. values and further_values:
    of the inputs that decide which branches run, for each set of shapes. packages: versions of Python and of what the plan
    was made with. command: the command line, where there was one. measured: all candidates
    of every problem, by the problem's text. loss: what the outputs of a plan of mixed data types lose on the samples, as budget
    says; frontier: the points that were found between speed and loss, the slowest first. budget and frontier are there whichever
    plan was kept.
    """

    model: str = ""
    model_sha256: str = ""
    machine: str = ""
    target: str = ""
    version: str = ""
    threads: int = 1
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    kept: str = ""
    predicted_ns: float | None = None
    measured_ns: float | None = None
    default_ns: float | None = None
    optimal: bool = False
    lower_bound_ns: float | None = None
    layer_ns: Mapping[str, float] = field(default_factory=dict)
    further_shapes: tuple[Mapping[str, Shape], ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    measured: Mapping[str, Sequence[Measured]] = field(default_factory=dict)
    loss: float | None = None
    float_ns: float | None = None
    budget: str = ""
    frontier: tuple[Tradeoff, ...] = ()
    ranges: tuple[Mapping[str, str], ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    further_values: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True)
class Plan:
    """What `softneuro.tune` makes and `softneuro.Session` runs.

    graph keeps symbolic dimensions; choices maps layer names, and `adapt_name` for conversions, to what was
    chosen at the tuned shapes. A layer without a choice, or whose choice does not fit other shapes or another
    CPU, runs with its default routine.
    """

    graph: Graph
    choices: Mapping[str, Choice]
    provenance: Provenance = field(default_factory=Provenance)

    def save(self, path: str | Path) -> None:
        """Write the plan file (see docs/plan-format.md), whole or not at all. Raises PlanError when it cannot be."""
        from softneuro.plan.file import save_plan

        save_plan(self, path)

    @classmethod
    def load(cls, path: str | Path, *, limits: ResourceLimits | None = None) -> Plan:
        """Read a plan file. Raises PlanError, in one sentence, for anything that is not a whole plan file, and
        ResourceLimitError for one that asks for more than the limits allow."""
        from softneuro.plan.file import load_plan

        return load_plan(path, limits)


def adapt_name(tensor: str, wanted: object) -> str:
    """The name under which the conversion of a tensor to a format stands in `Plan.choices`."""
    return f"adapt {tensor} to {wanted}"
