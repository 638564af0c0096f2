"""A loaded plan, ready to run: the class that users meet."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Graph, GraphInput
from softneuro.memory import aligned
from softneuro.plan.file import load_plan, release
from softneuro.plan.lower import lower, packed_constants
from softneuro.plan.plan import Choice, Plan
from softneuro.plan.program import BufferKind, Placed, Stored
from softneuro.problem import Problem
from softneuro.routines.candidates import routine_named
from softneuro.routines.routine import Routine, Schedule
from softneuro.runtime.context import Context
from softneuro.runtime.link import Linked, link
from softneuro.runtime.team import Team
from softneuro.specialise import specialise
from softneuro.types import Array, DType, Shape

if TYPE_CHECKING:
    from softneuro.runtime.timing import Timeline

__all__ = ["Binding", "Session", "TensorInfo"]

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)
_MOST_SPECIALISATIONS = 8
_MOST_IDLE_CONTEXTS = 8


@dataclass(frozen=True)
class TensorInfo:
    """A model's input or output: its name, data type (``f32``) and shape, with names or None for free dimensions."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


class _Specialisation:
    """A plan for concrete input shapes: one linked program and the contexts that run it."""

    def __init__(self, linked: Linked) -> None:
        self.linked = linked
        self.idle: list[Context] = []


class Session:
    """Runs a plan. Thread-safe: concurrent `run` calls each have their own memory.

    plan: a `Plan` or the path of a plan file. threads: how many threads share one inference; by default the
    number that the plan was tuned for, at most the CPUs this process may use. target: the instruction set to
    use, by default the best of this machine.

    Raises PlanError for a file that is damaged or foreign.
    """

    def __init__(self, plan: Plan | str | Path, threads: int | None = None, *, target: Target | None = None) -> None:
        self.plan = plan if isinstance(plan, Plan) else load_plan(plan)
        allowed = cpu.allowed_cpus()
        if threads is not None and threads < 1:
            raise InputError(f"threads: found {threads}, needed 1 or more")
        self.threads = threads if threads is not None else min(self.plan.provenance.threads, allowed)
        self.target = target if target is not None else targets.host()
        self._choices = self._choices_here()
        self._team = Team(self.threads, self.target)
        self._specialisations: OrderedDict[tuple[Shape, ...], _Specialisation] = OrderedDict()
        self._packed: dict[tuple[str, str, str], tuple[Array, ...]] = {}
        self._lock = threading.Lock()

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
        return tuple(TensorInfo(n, str(i.dtype), i.shape) for n, i in self.plan.graph.inputs.items())

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The model's outputs in order (shapes as at the tuned input shapes, None where unknown)."""
        types = self.plan.graph.types
        return tuple(
            TensorInfo(n, str(types[n].dtype) if n in types else "", types[n].shape if n in types else None)
            for n in self.plan.graph.outputs
        )

    @overload
    def run(self, feeds: Mapping[str, Any], /) -> dict[str, Array]: ...
    @overload
    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any], /) -> list[Array]: ...
    def run(self, names: Any, feeds: Any = None, /) -> Any:
        """Run one inference.

        ``run(feeds)`` returns a dict of all outputs by name; ``run(names, feeds)`` a list of the named ones (all
        for None), as onnxruntime does. feeds: input name → array of the declared shape and data type.

        Raises InputError when a name, shape or data type is not what the model needs.
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
        specialisation = self._specialisation(arrays)
        context = self._take(specialisation)
        try:
            dynamic, _ = self._bind_run(context, specialisation.linked, arrays)
            return function(context, specialisation.linked, self._team, dynamic, runs)
        finally:
            self._give(specialisation, context)

    def linked(self, shapes: Mapping[str, Sequence[int]]) -> Linked:
        """The program for input shapes, made now if it was not yet: what runs, in which formats."""
        return self._specialise(tuple(tuple(shapes[name]) for name in self.plan.graph.inputs)).linked

    def _infer(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        arrays = self._arrays(feeds)
        specialisation = self._specialisation(arrays)
        context = self._take(specialisation)
        try:
            dynamic, results = self._bind_run(context, specialisation.linked, arrays)
            values = context.run(self._team, dynamic)
            return self._collect(context, specialisation.linked, values, results)
        finally:
            self._give(specialisation, context)

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """The feeds as C-contiguous arrays, checked for names and data types."""
        declared = self.plan.graph.inputs
        for name in feeds:
            if name not in declared:
                raise InputError(f"input {name!r} is not one of the model's: needed {', '.join(map(repr, declared))}")
        arrays = {}
        for name, info in declared.items():
            if name not in feeds:
                raise InputError(f"input {name!r} is missing: needed {', '.join(map(repr, declared))}")
            arrays[name] = _checked(name, feeds[name], info)
        return arrays

    def _specialisation(self, arrays: Mapping[str, Array]) -> _Specialisation:
        return self._specialise(tuple(np.shape(arrays[name]) for name in self.plan.graph.inputs))

    def _specialise(self, shapes: tuple[Shape, ...]) -> _Specialisation:
        with self._lock:
            found = self._specialisations.get(shapes)
            if found is None:
                graph = specialise(self.plan.graph, dict(zip(self.plan.graph.inputs, shapes, strict=True)))
                if not self._packed:
                    self._pack_together(graph)
                program = lower(graph, self._choices, self.target, self.threads, self._pack)
                found = self._specialisations[shapes] = _Specialisation(link(program, self.target))
                while len(self._specialisations) > _MOST_SPECIALISATIONS:
                    self._specialisations.popitem(last=False)
            self._specialisations.move_to_end(shapes)
            return found

    def _pack_together(self, graph: Graph) -> None:
        """Pack the weights of all layers, several at once: numpy copies without the interpreter lock."""
        outline = lower(graph, self._choices, self.target, self.threads, None)
        layers = {layer.name: layer for layer in graph.layers}

        def pack(placed: Placed) -> None:
            layer, problem = layers.get(placed.name), placed.problem
            routine = routine_named(placed.choice.routine, type(problem.op)) if problem is not None else None
            if layer is None or problem is None or routine is None or not routine.packs:
                return
            constants = packed_constants(routine, layer.inputs, graph)
            self._pack(placed.name, problem, routine, placed.choice.schedule, constants)

        with ThreadPoolExecutor(cpu.allowed_cpus()) as pool:
            list(pool.map(pack, outline.placed))

    def _pack(self, name: str, problem: Problem, routine: Routine, schedule: Schedule,
              constants: Sequence[Array | None]) -> tuple[Array, ...]:
        key = (name, routine.name, repr(sorted(schedule.items())))
        if key not in self._packed:
            self._packed[key] = tuple(map(aligned, routine.pack(problem, schedule, self.target, constants)))
            for constant in constants:
                if constant is not None:
                    release(constant)
        return self._packed[key]

    def _take(self, specialisation: _Specialisation) -> Context:
        with self._lock:
            if specialisation.idle:
                return specialisation.idle.pop()
        return Context(specialisation.linked, self.target)

    def _give(self, specialisation: _Specialisation, context: Context) -> None:
        with self._lock:
            if len(specialisation.idle) < _MOST_IDLE_CONTEXTS:
                specialisation.idle.append(context)

    def _bind_run(self, context: Context, linked: Linked, arrays: Mapping[str, Array],
                  given: Mapping[str, Array] | None = None) -> tuple[dict[str, Array], dict[int, Array]]:
        """Bind inputs and fresh (or given) outputs; returns the inputs kept by name and the outputs by buffer."""
        program = linked.program
        dynamic: dict[str, Array] = {}
        for name, place in program.inputs.items():
            if isinstance(place, Stored):
                context.bind(place.buffer, arrays[name])
            else:
                dynamic[name] = arrays[name]
        results: dict[int, Array] = {}
        for index, buffer in enumerate(program.buffers):
            if buffer.kind is BufferKind.OUTPUT:
                stored = program.outputs[buffer.name]
                assert isinstance(stored, Stored)
                array = given[buffer.name] if given and buffer.name in given else None
                results[index] = np.empty(stored.type.shape, stored.type.dtype.numpy) if array is None else array
                context.bind(index, results[index])
        return dynamic, results

    def _collect(self, context: Context, linked: Linked, values: Mapping[str, Array],
                 results: Mapping[int, Array]) -> dict[str, Array]:
        outputs: dict[str, Array] = {}
        buffers = linked.program.buffers
        for name, place in linked.program.outputs.items():
            if isinstance(place, str):
                outputs[name] = values[place]
            elif place.buffer in results and buffers[place.buffer].name == name:
                outputs[name] = results[place.buffer].reshape(place.type.shape)
            else:
                outputs[name] = context.view(place).copy()
        return outputs


class Binding:
    """Fixed arrays of a session: `run` reads the inputs where they lie and writes the outputs where they lie.

    ``outputs`` maps every output name to its array. Not for concurrent use; make one binding for each thread.
    """

    def __init__(self, session: Session, feeds: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self._session = session
        arrays = session._arrays(feeds)
        self._specialisation = session._specialisation(arrays)
        self._context = Context(self._specialisation.linked, session.target)
        linked = self._specialisation.linked
        for name, array in outputs.items():
            _check_output(name, array, linked)
        self._dynamic, self._results = session._bind_run(self._context, linked, arrays, outputs)
        self._given = dict(outputs)
        self.outputs: dict[str, Array] = {}

    def run(self) -> dict[str, Array]:
        """Run one inference; returns ``outputs``."""
        values = self._context.run(self._session._team, self._dynamic)
        self.outputs = self._session._collect(self._context, self._specialisation.linked, values, self._results)
        for name, array in self._given.items():
            if not np.shares_memory(array, self.outputs[name]):
                array[...] = self.outputs[name]
        return self.outputs


def _at_least_one(what: str, found: int) -> int:
    """The number. Raises InputError below 1."""
    if found < 1:
        raise InputError(f"{what}: found {found}, needed 1 or more")
    return found


def _checked(name: str, value: Any, declared: GraphInput) -> Array:
    """A feed as a C-contiguous array. Raises InputError for another data type."""
    array = np.asarray(value)
    if declared.dtype not in (DType.STR, DType.OTHER) and DType.of(array.dtype) is not declared.dtype:
        if isinstance(value, np.ndarray) or not np.can_cast(array.dtype, declared.dtype.numpy, "same_kind"):
            raise InputError(f"input {name!r}: found data type {array.dtype}, needed {declared.dtype.numpy}")
        array = array.astype(declared.dtype.numpy)
    return np.ascontiguousarray(array).reshape(array.shape)


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
