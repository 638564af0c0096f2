"""A loaded plan, ready to run: the class that users meet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.limits import ResourceLimits, enforced, in_force
from softneuro.plan.file import load_plan
from softneuro.plan.plan import Choice, Plan
from softneuro.plan.program import Stored
from softneuro.runtime.bodies import Bodies
from softneuro.runtime.context import Context
from softneuro.runtime.feed import checked
from softneuro.runtime.forks import new_lock
from softneuro.runtime.inference import attach, gather
from softneuro.runtime.link import Linked
from softneuro.runtime.programs import Programs
from softneuro.runtime.specialisations import Inputs, Specialisation, Specialisations
from softneuro.runtime.team import Team
from softneuro.types import Array

if TYPE_CHECKING:
    from softneuro.runtime.timing import Timeline

__all__ = ["Binding", "Session", "TensorInfo"]

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)
_MOST_IDLE_CONTEXTS = 8


@dataclass(frozen=True)
class TensorInfo:
    """A model's input or output: its name, data type (``f32``) and shape, with names or None for free dimensions.

    An input that is no tensor, or whose elements no kernel knows, has its kind as data type: ``sequence(float32)``.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


class Session:
    """Runs a plan. Thread-safe: concurrent `run` calls each have their own memory.

    plan: a `Plan` or the path of a plan file. threads: how many threads share one inference; by default the
    number that the plan was tuned for, at most the CPUs this process may use. target: the instruction set to
    use, by default the best of this machine. limits: what the plan may ask for, see `ResourceLimits`.
    flush_denormals: kernels take float32 numbers below 1.2e-38 for zeros, which is much faster where a net makes many
    of them; layers on the host do not, and the mode of the caller's threads stays as it was.

    Raises PlanError for a file that is damaged or foreign, ResourceLimitError for one that asks for too much; `run` and the
    other methods raise it for input shapes at which it does.
    """

    def __init__(self, plan: Plan | str | Path, threads: int | None = None, *, target: Target | None = None,
                 limits: ResourceLimits | None = None, flush_denormals: bool = False) -> None:
        self._limits = limits if limits is not None else in_force()
        self.plan = plan if isinstance(plan, Plan) else load_plan(plan, self._limits)
        allowed = cpu.allowed_cpus()
        if threads is not None and threads < 1:
            raise InputError(f"threads: found {threads}, needed 1 or more")
        self.threads = threads if threads is not None else min(self.plan.provenance.threads, allowed)
        self.target = target if target is not None else targets.host()
        self._flush_denormals = flush_denormals
        self._team = Team(self.threads, self.target)
        self._programs = Programs(self.plan.graph, self._choices_here(), self.target, self.threads, self._limits)
        self._specialisations = Specialisations(self.plan, self._programs, self._limits)
        self._bodies = Bodies(self._programs, self._team, self.target, flush_denormals=self._flush_denormals)
        self._lock = new_lock()

    def _choices_here(self) -> Mapping[str, Choice]:
        """The plan's choices; on another instruction set than the plan was tuned for, without their schedules."""
        tuned_for = self.plan.provenance.target
        if tuned_for in ("", self.target.name):
            return self.plan.choices
        _log.warning("the plan was tuned for %s and runs on %s: tuning the model again here would make it faster",
                     tuned_for, self.target.name)
        return {name: replace(choice, schedule={}) for name, choice in self.plan.choices.items()}

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The model's inputs in order."""
        return tuple(TensorInfo(n, i.kind or str(i.dtype), i.shape) for n, i in self.plan.graph.inputs.items())

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The model's outputs in order (shapes as at the tuned input shapes, None where unknown)."""
        types = self.plan.graph.types
        return tuple(
            TensorInfo(n, str(types[n].dtype) if n in types else "", types[n].shape if n in types else None)
            for n in self.plan.graph.outputs
        )

    @property
    def control_inputs(self) -> tuple[str, ...]:
        """Inputs of which a program is made for each value, since a value decides which branch of the model runs."""
        return self._specialisations.control

    @overload
    def run(self, feeds: Mapping[str, Any], /) -> dict[str, Array]: ...
    @overload
    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any], /) -> list[Array]: ...
    def run(self, names: Any, feeds: Any = None, /) -> Any:
        """Run one inference.

        ``run(feeds)`` returns a dict of all outputs by name; ``run(names, feeds)`` a list of the named ones (all
        for None), as onnxruntime does. feeds: input name → array of the declared shape and data type; for an input
        that is no tensor a list (sequence), a dict (map) or None (optional that is absent).

        Raises InputError when a name, shape, kind or data type is not what the model needs.
        """
        if feeds is None:
            return self._infer(names)
        outputs = self._infer(feeds)
        if names is None:
            return [outputs[name] for name in self.plan.graph.outputs]
        unknown = [name for name in names if name not in outputs]
        if unknown:
            raise InputError(f"output {unknown[0]!r} is not one of the model's: needed {', '.join(map(repr, outputs))}")
        return [outputs[name] for name in names]

    def bind(self, feeds: Mapping[str, Array], outputs: Mapping[str, Array] | None = None) -> Binding:
        """Arrays to run on again and again without checks or copies: see `Binding`."""
        return Binding(self, feeds, outputs or {})

    def profile(self, feeds: Mapping[str, Any], repeat: int = 20) -> list[tuple[str, float]]:
        """Median nanoseconds of each layer and adapt over ``repeat`` runs, in the order they run.

        Raises InputError as `run` does, and when ``repeat`` is below 1.
        """
        from softneuro.runtime.timing import profile_context

        return self._timed(profile_context, feeds, _at_least_one("repeat", repeat))

    def trace(self, feeds: Mapping[str, Any], runs: int = 1) -> Timeline:
        """What every thread did, and when, in ``runs`` real runs one after the other, after some to warm up.

        Raises InputError as `run` does, and when ``runs`` is below 1.
        """
        from softneuro.runtime.timing import trace_context

        return self._timed(trace_context, feeds, _at_least_one("runs", runs))

    def _timed(self, function: Callable[[Context, Linked, Team, Mapping[str, Array], int], _Result],
               feeds: Mapping[str, Any], runs: int) -> _Result:
        """What a function of `runtime.timing` finds with the feeds bound."""
        arrays = self._arrays(feeds)
        specialisation = self._specialisations.of(arrays)
        context = self._take(specialisation)
        try:
            dynamic, _ = attach(context, specialisation.linked, arrays)
            return function(context, specialisation.linked, self._team, dynamic, runs)
        finally:
            self._give(specialisation, context)

    def linked(self, inputs: Inputs) -> Linked:
        """The program for input shapes, made now if it was not yet: what runs, in which formats.

        inputs: name → sizes, or an array: one of `control_inputs` has its value, else the one that the plan was tuned for.
        """
        return self._specialisations.at(inputs).linked

    def graph_for(self, inputs: Inputs) -> Graph:
        """The specialised graph that `linked` makes a program of."""
        return self._specialisations.graph_at(inputs)

    def _infer(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        arrays = self._arrays(feeds)
        specialisation = self._specialisations.of(arrays)
        context = self._take(specialisation)
        try:
            dynamic, results = attach(context, specialisation.linked, arrays)
            with enforced(self._limits):
                values = context.run(self._team, dynamic)
            return gather(context, specialisation.linked, values, results)
        finally:
            self._give(specialisation, context)

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """The feeds as C-contiguous arrays (or lists, dicts and None), checked for names, kinds and data types."""
        declared = self.plan.graph.inputs
        if not isinstance(feeds, Mapping):
            raise InputError(f"feeds: found {type(feeds).__name__}, needed a mapping with an array for each of "
                             f"{', '.join(map(repr, declared))}")
        for name in feeds:
            if name not in declared:
                raise InputError(f"input {name!r} is not one of the model's: needed {', '.join(map(repr, declared))}")
        arrays = {}
        for name, info in declared.items():
            if name not in feeds:
                raise InputError(f"input {name!r} is missing: needed {', '.join(map(repr, declared))}")
            arrays[name] = checked(name, feeds[name], info)
        return arrays

    def _take(self, specialisation: Specialisation) -> Context:
        with self._lock:
            if specialisation.idle:
                return specialisation.idle.pop()
        return self._context(specialisation.linked)

    def _context(self, linked: Linked) -> Context:
        return Context(linked, self.target, flush_denormals=self._flush_denormals, compute=self._bodies.compute)

    def _give(self, specialisation: Specialisation, context: Context) -> None:
        with self._lock:
            if len(specialisation.idle) < _MOST_IDLE_CONTEXTS:
                specialisation.idle.append(context)


class Binding:
    """Fixed arrays of a session: `run` reads the inputs where they lie and writes the outputs where they lie.

    ``outputs`` maps every output name to its array. Not for concurrent use; make one binding for each thread.
    """

    def __init__(self, session: Session, feeds: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self._session = session
        self._arrays = session._arrays(feeds)
        self._given = dict(outputs)
        self._attach()
        self.outputs: dict[str, Array] = {}

    def _attach(self) -> None:
        """Bind the arrays to the program for what the inputs hold that decide which one it is."""
        self._linked = self._session._specialisations.of(self._arrays).linked
        for name, array in self._given.items():
            _check_output(name, array, self._linked)
        control = [self._arrays[name] for name in self._session.control_inputs]
        self._control = [(array, array.tobytes()) for array in control if array.size == 1]
        self._context = self._session._context(self._linked)
        self._dynamic, self._results = attach(self._context, self._linked, self._arrays, self._given)

    def run(self) -> dict[str, Array]:
        """Run one inference; returns ``outputs``.

        Raises InputError when an input that decides what runs has changed, and an output then has another shape than its array.
        """
        if any(array.tobytes() != known for array, known in self._control):
            self._attach()
        with enforced(self._session._limits):
            values = self._context.run(self._session._team, self._dynamic)
        self.outputs = gather(self._context, self._linked, values, self._results)
        for name, array in self._given.items():
            if not np.shares_memory(array, self.outputs[name]):
                array[...] = self.outputs[name]
        return self.outputs


def _at_least_one(what: str, found: int) -> int:
    """The number. Raises InputError below 1."""
    if found < 1:
        raise InputError(f"{what}: found {found}, needed 1 or more")
    return found


def _check_output(name: str, array: Array, linked: Linked) -> None:
    """Raise InputError when an array cannot take an output."""
    place = linked.program.outputs.get(name)
    if place is None:
        raise InputError(f"output {name!r} is not one of the model's: needed {', '.join(map(repr, linked.program.outputs))}")
    if isinstance(place, Stored):
        wanted = (place.type.shape, place.type.dtype.numpy)
        if (array.shape, array.dtype) != wanted or not array.flags.c_contiguous or not array.flags.writeable:
            raise InputError(f"output {name!r}: found {array.dtype} {array.shape}, needed a writeable C-contiguous "
                             f"{wanted[1]} array of shape {wanted[0]}")
