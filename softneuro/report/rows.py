"""Where the time of a run goes, a row for each layer and adapt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softneuro.ops.adapt import Adapt
from softneuro.ops.onnx_op import OnnxOp
from softneuro.plan.plan import Provenance
from softneuro.plan.program import HostStep, Placed, Program
from softneuro.problem import Problem
from softneuro.report.known_times import KnownTimes, problem_text
from softneuro.runtime.feed import shape_of
from softneuro.runtime.session import Session
from softneuro.types import Array, TensorType

__all__ = ["ADAPT", "HOST", "LAYER", "Group", "LayerRow", "grouped", "is_free", "layer_rows", "predicted_total", "sum_ns"]

ADAPT, HOST, LAYER = "adapt", "host", "layer"


@dataclass(frozen=True)
class LayerRow:
    """One layer or adapt of a run: what it computes, what computes it, median nanoseconds, and the share of the total.

    kind: ``layer``, ``adapt`` (a conversion between formats) or ``host`` (computed by the op's numpy reference).
    op: the op's name (ONNX's where it is one that only the host knows), with what is applied in registers. shapes:
    those of the inputs and outputs, as people write them; output: the first output's type. predicted_ns is what tuning
    measured for these shapes and threads, None where it did not. macs: multiply-adds of one run, however the routine
    computes them; gflops counts each as two, and is None for layers without any. steps: kernel launches, none for
    another view of memory that is there. problem: its text, empty where types are not known before the run.
    """

    name: str
    kind: str
    op: str
    shapes: str
    output: str
    routine: str
    schedule: Mapping[str, int]
    formats: str
    ns: float
    share: float
    predicted_ns: float | None
    macs: int
    steps: int = 1
    problem: str = ""

    @property
    def gflops(self) -> float | None:
        """GFLOP/s, None for layers without multiply-adds."""
        return 2 * self.macs / self.ns if self.macs and self.ns else None

    def peak_share(self, peak_gflops: float) -> float | None:
        """The part of the machine's arithmetic peak that the layer reaches: 1.0 is all of it. Above 1 where a routine
        (Winograd) gets by with fewer multiplications than the layer is counted with."""
        return self.gflops / peak_gflops if self.gflops is not None and peak_gflops else None

    @property
    def family(self) -> str:
        """What the row is coloured and grouped by: its op without the activation, ``adapt`` or ``host``."""
        return self.op.partition("+")[0] if self.kind == LAYER else self.kind


@dataclass(frozen=True)
class Group:
    """Rows taken together: how many, their time, share of the total, and the prediction where all have one."""

    name: str
    count: int
    ns: float
    share: float
    predicted_ns: float | None


def layer_rows(session: Session, feeds: Mapping[str, Array], repeat: int) -> list[LayerRow]:
    """Run the plan ``repeat`` times; one row for each layer and adapt, in the order they run."""
    times = dict(session.profile(feeds, repeat))
    total = sum(times.values()) or 1.0
    program = session.linked(feeds).program
    predicted = _predictions(session, feeds)
    return [_row(item, program, times[item.name], total, predicted(item)) for item in program.placed]


def is_free(row: LayerRow) -> bool:
    """Whether nothing runs for the row: another view of memory that is there."""
    return row.steps == 0


def sum_ns(rows: Iterable[LayerRow], kind: str | None = None) -> float:
    """Nanoseconds of all rows, or of those of a kind."""
    return sum(row.ns for row in rows if kind in (None, row.kind))


def predicted_total(rows: Sequence[LayerRow]) -> float | None:
    """The sum of the predictions; None when a row that takes time has none."""
    if any(row.predicted_ns is None and not is_free(row) for row in rows):
        return None
    return sum(row.predicted_ns or 0.0 for row in rows)


def grouped(rows: Sequence[LayerRow], name: Callable[[LayerRow], str]) -> list[Group]:
    """The rows by name, the slowest group first."""
    groups: dict[str, list[LayerRow]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    found = [
        Group(key, len(group), sum_ns(group), sum(row.share for row in group), predicted_total(group))
        for key, group in groups.items()
    ]  # fmt: skip
    return sorted(found, key=lambda group: -group.ns)


def _row(item: Placed, program: Program, ns: float, total: float, predicted: float | None) -> LayerRow:
    problem, choice = item.problem, item.choice
    return LayerRow(
        item.name, _kind(item, program), _op(item, program), _shapes(problem) if problem else "?",
        str(problem.outputs[0]) if problem and problem.outputs else "?", choice.routine, dict(choice.schedule),
        str(choice.signature), ns, ns / total, predicted, problem.macs() if problem else 0, len(item.steps),
        problem_text(problem) if problem else "",
    )  # fmt: skip


def _kind(item: Placed, program: Program) -> str:
    if item.problem is not None and isinstance(item.problem.op, Adapt):
        return ADAPT
    return HOST if any(isinstance(program.steps[index], HostStep) for index in item.steps) else LAYER


def _op(item: Placed, program: Program) -> str:
    steps = [program.steps[index] for index in item.steps]
    host = next((step.layer.op for step in steps if isinstance(step, HostStep)), None)
    op = item.problem.op if item.problem is not None else host
    if op is None:
        return item.choice.routine.partition(".")[0]
    epilogue = getattr(op, "epilogue", None)
    name = op.op_type if isinstance(op, OnnxOp) else op.name
    parts = (name, "add" if epilogue and epilogue.residual else "", epilogue.activation if epilogue else "")
    return "+".join(part for part in parts if part)


def _shapes(problem: Problem) -> str:
    """The shapes as ``1x64x56x56 *64x64x3x3 -> 1x64x56x56``: a star for weights, and no biases and other small constants."""
    inputs = [
        f"{'*' if constant else ''}{_sizes(type_)}"
        for type_, constant in zip(problem.inputs, problem.constant, strict=True)
        if type_ is not None and not (constant and type_.rank < 2)
    ]
    return " ".join([*inputs, "->", *map(_sizes, problem.outputs)])


def _sizes(type_: TensorType) -> str:
    return "x".join(map(str, type_.shape)) or "scalar"


def _predictions(session: Session, feeds: Mapping[str, Array]) -> Callable[[Placed], float | None]:
    """What tuning measured for what runs: nothing for other inputs, another number of threads or instruction set."""
    made = session.plan.provenance
    known = KnownTimes(made.measured)
    alike = made.target in ("", session.target.name) and made.threads == session.threads
    layer_ns = made.layer_ns if alike and _are_tuned(made, feeds) else {}

    def predicted(item: Placed) -> float | None:
        found = known.recorded_of(item.problem, item.choice) if alike and item.problem is not None else None
        return found.ns if found is not None else layer_ns.get(item.name)

    return predicted


def _are_tuned(made: Provenance, feeds: Mapping[str, Array]) -> bool:
    """Whether the layers' recorded times are of these shapes and values, not means over several sets."""
    alike = {name: tuple(shape) for name, shape in made.shapes.items()} == {name: shape_of(feed) for name, feed in feeds.items()}
    return alike and not made.further_shapes and all(np.all(feeds[name] == value) for name, value in made.values.items())
