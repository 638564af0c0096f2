"""From a specialised graph and choices to a program: adapts inserted, views aliased, kernels given their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Graph, Layer
from softneuro.memory import aligned
from softneuro.ops.adapt import Adapt
from softneuro.plan.defaults import default_choice
from softneuro.plan.plan import Choice, adapt_name
from softneuro.plan.program import Buffer, BufferKind, HostStep, NativeStep, Packing, Placed, Program, Stored, Word
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.candidates import candidates, refusal, routine_named
from softneuro.routines.routine import Address, Area, Built, Routine, Schedule, Signature
from softneuro.types import Array, DType, Format, TensorType

__all__ = ["Weights", "adapt_problem", "fitted", "lower", "lower_candidate", "problem_of"]

_SMALL_NUMBER = 64


class Weights(Protocol):
    """Gives programs their constants; sessions keep them for all shapes."""

    def packed(self, packings: Sequence[Packing]) -> Sequence[tuple[Array, ...]]:
        """What `Routine.pack` makes of each layer's constants, on cache lines."""

    def laid_out(self, array: Array, wanted: Format, quantisation: Quantisation | None) -> Array:
        """A constant as it lies in memory in a format, on a cache line. quantisation: needed for qint8."""


def problem_of(layer: Layer, graph: Graph, threads: int) -> Problem | None:
    """The layer's problem, or None when a type is not known before the run or is not kept in memory as numbers."""
    inputs = tuple(graph.types.get(name) if name else None for name in layer.inputs)
    outputs = tuple(graph.types.get(name) for name in layer.outputs if name)
    known = [t for t, name in zip(inputs, layer.inputs, strict=True) if name] + list(outputs)
    if any(t is None or not _in_memory(t) for t in known):
        return None
    constant = tuple(name in graph.constants for name in layer.inputs)
    problem = Problem(layer.op, inputs, tuple(t for t in outputs if t is not None), constant, threads)
    return problem.quantised([graph.quantisations.get(name) for name in (*layer.inputs, *filter(None, layer.outputs))])


def adapt_problem(name: str, graph: Graph, threads: int) -> Problem:
    """The problem of bringing a tensor into another format."""
    type_, quantisation = graph.types[name], graph.quantisations.get(name)
    return Problem(Adapt(), (type_,), (type_,), (False,), threads).quantised((quantisation, quantisation))


def _packed_constants(routine: Routine, inputs: Sequence[str], graph: Graph) -> list[Array | None]:
    """What `Routine.pack` gets: the values of the inputs that it consumes, None in the other places."""
    return [graph.constants.get(name) if i in routine.packs else None for i, name in enumerate(inputs)]


def _in_memory(type_: TensorType) -> bool:
    return type_.dtype not in (DType.STR, DType.OTHER)


def _is_sound(schedule: Schedule, offered: Sequence[Schedule]) -> bool:
    """Whether a plan's numbers may be used: those that the routine knows, small or offered for these shapes.

    Plans are untrusted, and a schedule made for other shapes need not be offered for these.
    """
    if schedule.keys() != offered[0].keys():
        return False
    return all(1 <= n <= _SMALL_NUMBER or any(o[key] == n for o in offered) for key, n in schedule.items())


def fitted(choice: Choice, problem: Problem, target: Target) -> Choice | None:
    """The choice if it fits the problem, with the default schedule in place of one that was not made for it, or None."""
    routine = routine_named(choice.routine, type(problem.op))
    if routine is None or refusal(routine, problem, target) is not None:
        return None
    if choice.signature not in routine.signatures(problem):
        return None
    offered = routine.schedules(problem, target)
    return choice if _is_sound(choice.schedule, offered) else replace(choice, schedule=dict(offered[0]))


class _Lowering:
    """The program under construction."""

    def __init__(self, graph: Graph, choices: Mapping[str, Choice], target: Target, threads: int,
                 weights: Weights | None) -> None:
        self.graph, self.choices, self.target, self.threads, self.weights = graph, choices, target, threads, weights
        self.steps: list[NativeStep | HostStep] = []
        self.buffers: list[Buffer] = []
        self.stored: dict[str, dict[Format, Stored]] = {}
        self.host_constants: dict[str, Array] = {}
        self.placed: list[Placed] = []
        self.packings: list[Packing] = []
        self._built: dict[tuple[str, Problem, str, str], Built] = {}
        self._tables: dict[int, int] = {}

    def new_buffer(self, kind: BufferKind, nbytes: int, name: str = "", array: Array | None = None) -> int:
        self.buffers.append(Buffer(kind, nbytes, name, array))
        return len(self.buffers) - 1

    def table_buffer(self, array: Array) -> int:
        if id(array) not in self._tables:
            self._tables[id(array)] = self.new_buffer(BufferKind.CONSTANT, array.nbytes, array=aligned(array))
        return self._tables[id(array)]

    def formats(self, name: str) -> Sequence[Format]:
        """The formats in which a tensor exists; a constant is converted beforehand, so it exists in every one."""
        return tuple(self.stored.get(name, ()))

    def version(self, name: str, wanted: Format) -> Stored:
        """The tensor in a format, through an adapt when it does not exist in it yet."""
        versions = self.stored.setdefault(name, {})
        if wanted in versions:
            return versions[wanted]
        type_ = self.graph.types[name]
        if name in self.graph.constants:
            constant, quantisation = np.asarray(self.graph.constants[name]), self.graph.quantisations.get(name)
            array = self.weights.laid_out(constant, wanted, quantisation) if self.weights else None
            versions[wanted] = Stored(self.new_buffer(BufferKind.CONSTANT, wanted.nbytes(type_), array=array), type_, wanted)
            return versions[wanted]
        present = next(iter(versions))
        problem = adapt_problem(name, self.graph, self.threads)
        signature = Signature((present,), (wanted,))
        label = adapt_name(name, wanted)
        choice = self.choices.get(label)
        kept = fitted(choice, problem, self.target) if choice is not None and choice.signature == signature else None
        self._place(label, problem, kept or self._default_adapt(problem, signature), (name,), (name,))
        return self.stored[name][wanted]

    def _default_adapt(self, problem: Problem, signature: Signature) -> Choice:
        for candidate in candidates(problem, self.target):
            if candidate.signature == signature:
                return Choice(candidate.routine.name, signature, dict(candidate.schedule))
        raise AssertionError(f"no adapt {signature} for {problem.key()}")

    def add_layer(self, layer: Layer) -> None:
        problem = problem_of(layer, self.graph, self.threads)
        if problem is None:
            self._host_step(layer, None)
            return
        planned = self.choices.get(layer.name)
        choice = fitted(planned, problem, self.target) if planned is not None else None
        if choice is None:
            choice = default_choice(problem, self.target, lambda i: self._available(layer.inputs[i], problem, i))
        outputs = tuple(name for name in layer.outputs if name)
        routine = routine_named(choice.routine, type(problem.op))
        if routine is None or choice.routine.endswith(".reference"):
            self._host_step(layer, problem)
        else:
            self._place(layer.name, problem, choice, layer.inputs, outputs)

    def _available(self, name: str, problem: Problem, index: int) -> Sequence[Format]:
        type_ = problem.inputs[index]
        if name in self.graph.constants and type_ is not None:
            return tuple(Format(type_.dtype, layout) for layout in Format.layouts_of(type_))
        return self.formats(name)

    def _place(self, label: str, problem: Problem, choice: Choice, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        routine = routine_named(choice.routine, type(problem.op))
        assert routine is not None
        key = (routine.name, problem, str(choice.signature), repr(sorted(choice.schedule.items())))
        built = self._built.get(key)
        if built is None:
            built = self._built[key] = routine.build(problem, choice.signature, choice.schedule, self.target)
        sources = [
            self.version(name, format_) if format_ is not None else None
            for name, format_ in zip(inputs, choice.signature.inputs, strict=False)
        ]
        first = len(self.steps)
        if built.alias is not None:
            origin = sources[built.alias]
            assert origin is not None
            self._store(outputs[0], Stored(origin.buffer, problem.outputs[0], choice.signature.outputs[0]))
        else:
            results = [
                Stored(self.new_buffer(BufferKind.ARENA, format_.nbytes(type_)), type_, format_)
                for type_, format_ in zip(problem.outputs, choice.signature.outputs, strict=True)
            ]
            areas = {
                Area.INPUT: [s.buffer if s else -1 for s in sources],
                Area.OUTPUT: [s.buffer for s in results],
                Area.PACKED: self._packed_buffers(built),
                Area.TABLE: [self.table_buffer(t) for t in built.tables],
                Area.SCRATCH: [self.new_buffer(BufferKind.ARENA, built.scratch)] if built.scratch else [],
            }
            if areas[Area.PACKED]:
                constants = _packed_constants(routine, inputs, self.graph)
                self.packings.append(Packing(label, problem, routine, choice.schedule, constants, areas[Area.PACKED]))
            self._launch(label, built, areas)
            for name, result in zip(outputs, results, strict=True):
                self._store(name, result)
        self.placed.append(Placed(label, problem, choice, range(first, len(self.steps))))

    def _packed_buffers(self, built: Built) -> list[int]:
        """A buffer for each packed array that the launches read; `program` puts the arrays there."""
        read = [w.index for launch in built.launches for w in launch.words if isinstance(w, Address) and w.area is Area.PACKED]
        return [self.new_buffer(BufferKind.CONSTANT, 0) for _ in range(max(read, default=-1) + 1)]

    def _store(self, name: str, stored: Stored) -> None:
        self.stored.setdefault(name, {})[stored.format] = stored

    def _launch(self, label: str, built: Built, areas: Mapping[Area, Sequence[int]]) -> None:
        begin = len(self.steps)
        for launch in built.launches:
            words: tuple[Word, ...] = ()
            if self.weights is not None:
                words = tuple((_located(label, areas, w), w.offset) if isinstance(w, Address) else w for w in launch.words)
            self.steps.append(NativeStep(label, launch.kernel, words))
        for buffers in areas.values():
            for buffer in buffers:
                if buffer >= 0:
                    self.buffers[buffer].use(begin)
                    self.buffers[buffer].use(len(self.steps) - 1)

    def _host_step(self, layer: Layer, problem: Problem | None) -> None:
        inputs = tuple(self._host_input(name) if name else None for name in layer.inputs)
        outputs: list[Stored | str | None] = []
        for name in layer.outputs:
            type_ = self.graph.types.get(name) if name else None
            if type_ is not None and _in_memory(type_):
                stored = Stored(self.new_buffer(BufferKind.ARENA, type_.nbytes), type_, Format.row_major(type_))
                self._store(name, stored)
                outputs.append(stored)
            else:
                outputs.append(name or None)
        step = len(self.steps)
        for item in (*inputs, *outputs):
            if isinstance(item, Stored):
                self.buffers[item.buffer].use(step)
        self.steps.append(HostStep(layer, inputs, tuple(outputs)))
        formats = [s.format if isinstance(s, Stored) else None for s in inputs]
        results = [s.format for s in outputs if isinstance(s, Stored)]
        choice = Choice(f"{layer.op.name}.reference", Signature(tuple(formats), tuple(results)))
        self.placed.append(Placed(layer.name, problem, choice, range(step, step + 1)))

    def _host_input(self, name: str) -> Stored | str:
        if name in self.graph.constants:
            self.host_constants[name] = self.graph.constants[name]
            return name
        if name in self.stored:
            return self.version(name, Format.row_major(self.graph.types[name]))
        return name

    def finish(self) -> Program:
        inputs: dict[str, Stored | str] = {}
        for name in self.graph.inputs:
            inputs[name] = next(iter(self.stored[name].values())) if name in self.stored else name
        outputs = {name: self._output(name) for name in self.graph.outputs}
        end = len(self.steps)
        for item in outputs.values():
            if isinstance(item, Stored):
                self.buffers[item.buffer].use(end)
        return self.program(inputs, outputs)

    def program(self, inputs: Mapping[str, Stored | str], outputs: Mapping[str, Stored | str]) -> Program:
        """What was made so far, its weights in place unless it is an outline."""
        if self.weights is not None:
            for packing, arrays in zip(self.packings, self.weights.packed(self.packings), strict=True):
                for index, array in zip(packing.buffers, arrays, strict=False):
                    self.buffers[index].array, self.buffers[index].nbytes = array, array.nbytes
        return Program(tuple(self.steps), tuple(self.buffers), inputs, outputs, self.host_constants, tuple(self.placed),
                       tuple(self.packings))

    def _output(self, name: str) -> Stored | str:
        if name not in self.stored and name not in self.graph.constants:
            return name
        if name in self.graph.constants and not _in_memory(self.graph.types[name]):
            self.host_constants[name] = self.graph.constants[name]
            return name
        stored = self.version(name, Format.row_major(self.graph.types[name]))
        buffer = self.buffers[stored.buffer]
        if buffer.kind is BufferKind.ARENA:
            buffer.kind, buffer.name = BufferKind.OUTPUT, name
        return stored


def _located(label: str, areas: Mapping[Area, Sequence[int]], address: Address) -> int:
    """The buffer of an address. Raises InputError when the layer of a plan lacks that input or output."""
    buffers = areas[address.area]
    if address.index >= len(buffers) or buffers[address.index] < 0:
        raise InputError(f"layer {label!r}: found no {address.area.name.lower()} number {address.index}, "
                         "needed one: tune the model again")
    return buffers[address.index]


def lower_candidate(problem: Problem, choice: Choice, constants: Mapping[int, Array], target: Target, copies: int,
                    weights: Weights) -> Program:
    """A program that computes one problem ``copies`` times with one choice, to be measured.

    Inputs lie in their signature's formats under the names ``x0``, ``x1``...; constants by position. The copies
    read the same inputs and write the same memory, but each has its own packed weights. The program's outputs are
    the first copy's: what is there when only its steps were run.
    """
    names = tuple(f"x{i}" if t is not None else "" for i, t in enumerate(problem.inputs))
    types = {name: t for name, t in zip(names, problem.inputs, strict=True) if t is not None}
    values = {f"x{i}": array for i, array in constants.items()}
    graph = Graph({}, (), (), values, types)
    lowering = _Lowering(graph, {}, target, problem.threads, weights)
    inputs: dict[str, Stored | str] = {}
    for name, type_, format_ in zip(names, problem.inputs, choice.signature.inputs, strict=False):
        if type_ is not None and format_ is not None and name not in values:
            buffer = lowering.new_buffer(BufferKind.INPUT, format_.nbytes(type_), name)
            inputs[name] = Stored(buffer, type_, format_)
            lowering._store(name, Stored(buffer, type_, format_))
    for copy in range(copies):
        outputs = tuple(f"y{copy}.{i}" for i in range(len(problem.outputs)))
        lowering._place(f"copy{copy}", problem, choice, names, outputs)
    results = {f"y0.{i}": next(iter(lowering.stored[f"y0.{i}"].values())) for i in range(len(problem.outputs))}
    return lowering.program(inputs, results)


def lower(graph: Graph, choices: Mapping[str, Choice], target: Target, threads: int,
          weights: Weights | None) -> Program:
    """The program of a specialised graph.

    Layers whose choice is missing or does not fit get their default; conversions between formats are inserted
    once for each tensor and format. Without ``weights`` the program is an outline: what would run, without weights
    and arguments.
    """
    lowering = _Lowering(graph, choices, target, threads, weights)
    for name in graph.inputs:
        type_ = graph.types[name]
        if _in_memory(type_):
            buffer = lowering.new_buffer(BufferKind.INPUT, type_.nbytes, name)
            lowering._store(name, Stored(buffer, type_, Format.row_major(type_)))
    for layer in graph.layers:
        lowering.add_layer(layer)
    return lowering.finish()
