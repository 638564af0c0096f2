"""From a model to a plan: import, rewrite, measure, select, check the whole plan."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from softneuro import cpu
from softneuro._version import __version__
from softneuro.codegen import target as targets
from softneuro.codegen.jit import object_code
from softneuro.codegen.precompile import precompile
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.plan.lower import lower
from softneuro.plan.outline import choices_of, kernels_of
from softneuro.plan.plan import Plan, Provenance
from softneuro.specialise import default_shapes, specialise
from softneuro.tuning.costs import Costs
from softneuro.tuning.profile import Profile
from softneuro.tuning.select import Selection, select
from softneuro.tuning.whole_plan import fastest_plan, precise_times, random_feeds
from softneuro.types import Shape

if TYPE_CHECKING:
    import onnx

__all__ = ["Progress", "tune"]

_RUNNERS_UP = 2


@dataclass(frozen=True)
class Progress:
    """Where tuning stands: ``done`` of ``total`` units of a stage, and what is at hand."""

    stage: str
    done: int
    total: int
    detail: str = ""


Report = Callable[[Progress], None]


def tune(model: str | Path | bytes | onnx.ModelProto, *, shapes: Mapping[str, Sequence[int]] | None = None,
         threads: int | None = None, dtypes: Sequence[str] = ("f32",), time_limit: float | None = None,
         profile: str | Path | None = None, progress: Report | None = None, target: Target | None = None) -> Plan:
    """Make a plan of a model for this machine.

    model: path, bytes or ModelProto. shapes: input name → sizes, for models with free dimensions or to override
    declared ones (free dimensions are 1 where nothing is said). threads: how many share one inference; by default
    all CPUs this process may use. dtypes: data types that routines may compute float layers in. time_limit:
    seconds for measuring; 0 measures nothing and takes each layer's default routine; None means no limit.
    profile: a file of measurements to reuse and extend. progress: called with a `Progress` between measurements.
    target: the instruction set to tune for, by default the best of this machine.

    When the model has free dimensions, every kernel that the plan needs at other sizes is compiled before this
    returns, into the object cache.

    Raises ModelError (the model cannot be read), UnsupportedOp, InputError (shapes or arguments do not fit),
    ProfileError.
    """
    from softneuro.passes.pipeline import optimise
    from softneuro.passes.rewrite import is_static

    if tuple(dtypes) != ("f32",):
        raise InputError(f"dtypes: found {','.join(dtypes)}, needed f32 (other data types are not there yet)")
    if threads is not None and threads < 1:
        raise InputError(f"threads: found {threads}, needed 1 or more")
    if time_limit is not None and not time_limit >= 0:
        raise InputError(f"time_limit: found {time_limit}, needed 0 or more seconds")
    report = progress or (lambda _: None)
    report(Progress("import", 0, 1))
    imported = _import(model, shapes or {})
    sizes = default_shapes(imported, shapes or {})
    hints = specialise(imported, sizes).types
    graph = optimise(imported, hints)
    concrete = specialise(graph, sizes)
    graph = replace(graph, types=dict(concrete.types))
    provenance = Provenance(
        model=Path(model).name if isinstance(model, (str, Path)) else "", model_sha256=_digest(model),
        machine=cpu.fingerprint(), target=(target or targets.host()).name, version=__version__,
        threads=threads or cpu.allowed_cpus(), shapes=sizes, packages=_packages(),
    )
    tuner = _Tuner(graph, concrete, provenance, target or targets.host(), report)
    plan = tuner.default() if time_limit == 0 else tuner.plan(Profile(tuner.target, profile), time_limit)
    if not is_static(graph):
        tuner.compile(plan)
    return plan


def _import(model: str | Path | bytes | onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The imported graph. Free dimensions stay free; a declared size is replaced only where ``shapes`` differs from it."""
    from softneuro.importer.model import import_model

    graph = import_model(model)
    other = {
        name: shape
        for name, shape in shapes.items()
        if name not in graph.inputs or not _fits(graph.inputs[name].shape, tuple(shape))
    }
    return import_model(model, shapes=other) if other else graph


def _fits(declared: tuple[int | str | None, ...] | None, shape: Shape) -> bool:
    return declared is None or (
        len(declared) == len(shape) and all(not isinstance(d, int) or d == s for d, s in zip(declared, shape, strict=True))
    )


def _digest(model: object) -> str:
    """SHA-256 of the model's bytes (of the file alone when weights are external); empty for a ModelProto."""
    if isinstance(model, (str, Path)):
        with open(model, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(model).hexdigest() if isinstance(model, bytes) else ""


def _packages() -> dict[str, str]:
    """Versions of Python and of the packages that decide what kernels a plan was measured with."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "onnx", "numba", "llvmlite")}


class _Tuner:
    """One tuning run."""

    def __init__(self, graph: Graph, concrete: Graph, provenance: Provenance, target: Target, report: Report) -> None:
        self.graph, self.concrete, self.provenance, self.target, self.report = graph, concrete, provenance, target, report

    def default(self) -> Plan:
        """The default choice for every layer, written down: other shapes might have other defaults."""
        outline = lower(self.concrete, {}, self.target, self.provenance.threads, None)
        return Plan(self.graph, choices_of(outline), self.provenance)

    def compile(self, plan: Plan) -> None:
        """Compile every kernel that the plan may launch at any shape."""
        outline = lower(self.concrete, plan.choices, self.target, self.provenance.threads, None)
        kernels = kernels_of(outline, self.target)
        precompile(kernels, self.target, lambda done, total, what: self.report(Progress("compile", done, total, what)))
        for kernel in kernels:
            object_code(kernel, self.target)  # the few that no process was started for

    def plan(self, profile: Profile, time_limit: float | None) -> Plan:
        deadline = None if time_limit is None else time.monotonic() + time_limit
        costs = Costs(self.concrete, self.target, self.provenance.threads, profile)
        try:
            costs.compile_all(lambda done, total, what: self.report(Progress("compile", done, total, what)))
            costs.measure_all(deadline, lambda done, total, what: self.report(Progress("measure", done, total, what)))
        finally:
            profile.close()
        self.report(Progress("select", 0, 1))
        times = costs.layer_times()
        selections = select(self.concrete, times, costs.adapt_ns, 1 + _RUNNERS_UP)
        plans = [self._finished(selection, costs) for selection in selections]
        precise = precise_times(times, self.concrete)
        if precise != times:
            (selection,) = select(self.concrete, precise, costs.adapt_ns)
            plans.append(self._finished(selection, costs))
        default = self.default()
        if not costs.failed(default.choices):
            made = replace(plans[0].provenance, kept="default", predicted_ns=None, layer_ns=costs.chosen_ns(default.choices))
            plans.append(replace(default, provenance=made))
        self.report(Progress("check", 0, 1))
        return fastest_plan(plans, random_feeds(self.concrete), self.provenance.threads, self.target)

    def _finished(self, selection: Selection, costs: Costs) -> Plan:
        choices = dict(selection.choices) | costs.adapt_choices()
        provenance = replace(
            self.provenance, kept="selected", predicted_ns=selection.predicted_ns, optimal=selection.optimal,
            lower_bound_ns=selection.lower_bound_ns, layer_ns=costs.chosen_ns(choices),
        )
        return Plan(self.graph, choices, provenance)
