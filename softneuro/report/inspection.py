"""What a model or a plan is: inputs, outputs, parameters, arithmetic, memory, and what runs its layers on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.control import BodyOp
from softneuro.control_inputs import control_inputs, control_values
from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Op
from softneuro.ops.onnx_op import OnnxOp
from softneuro.plan.arena import Interval, assign
from softneuro.plan.lower import lower
from softneuro.plan.plan import Plan, Provenance
from softneuro.plan.program import BufferKind, Placed, Program
from softneuro.routines.candidates import rejections
from softneuro.specialise import default_shapes, specialise
from softneuro.tuning.values import decided
from softneuro.types import Array, Shape, TensorType

if TYPE_CHECKING:
    from softneuro.importer.survey import Survey

__all__ = ["Amount", "InspectedLayer", "InspectedTensor", "Inspection", "OpCount", "OperatorRefused", "RoutineCount",
           "inspect_model", "inspect_plan", "op_count", "op_label", "routine_count"]  # fmt: skip

@dataclass(frozen=True)
class InspectedTensor:
    """An input or output: as declared (a size, a name or None for each axis; None when not even the rank is known), and
    the sizes that the numbers are for (None when only the run will tell)."""

    name: str
    dtype: str
    declared: tuple[int | str | None, ...] | None
    shape: Shape | None


@dataclass(frozen=True)
class Amount:
    """Elements and bytes of constants."""

    count: int
    nbytes: int


@dataclass(frozen=True)
class InspectedLayer:
    """A layer, or an adapt (a change of format between two layers).

    parameters: elements of the constants that it reads. macs: multiply-adds of one run. routine: what runs it here;
    native is False on the host's reference, and reasons tell why. predicted_ns: what tuning measured.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: int
    macs: int
    routine: str
    formats: str
    schedule: Mapping[str, int]
    native: bool
    adapt: bool
    predicted_ns: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpCount:
    """The layers of one op together; native and host count those with and without a routine here."""

    op: str
    layers: int
    native: int
    host: int
    macs: int
    parameters: int


@dataclass(frozen=True)
class RoutineCount:
    """The layers and adapts that one routine runs, and the sum of their measured times (None without any)."""

    routine: str
    layers: int
    predicted_ns: float | None


@dataclass(frozen=True)
class OperatorRefused:
    """An ONNX node that nothing can run, or that breaks its operator's rules."""

    layer: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Inspection:
    """All that `softneuro inspect` shows.

    kind: ``model`` or ``plan``. operators: ONNX nodes by type, and refused, problem: why a model cannot be tuned; all
    empty for plans. layers: in the order they run, after the passes; empty for a model that cannot be tuned, and then
    macs and arena_bytes are None. arena_bytes: memory of all activations of one inference, inputs and outputs beside.
    provenance: None for models. decides: inputs of which a program is made for each value, as they decide what runs, with the
    value that the layers are shown for, None where there is none.
    """

    kind: str
    file: str
    file_bytes: int
    name: str
    target: str
    threads: int
    inputs: tuple[InspectedTensor, ...]
    outputs: tuple[InspectedTensor, ...]
    parameters: Mapping[str, Amount]
    layers: tuple[InspectedLayer, ...] = ()
    macs: int | None = None
    arena_bytes: int | None = None
    producer: str = ""
    ir_version: int | None = None
    opsets: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[OperatorRefused, ...] = ()
    problem: str = ""
    provenance: Provenance | None = None
    decides: Mapping[str, int | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def inspect_plan(path: Path, plan: Plan, shapes: Mapping[str, Shape], threads: int | None = None,
                 target: Target | None = None) -> Inspection:
    """A plan at the tuned sizes and threads, or those given. Raises InputError when the shapes do not fit."""
    made, target = plan.provenance, target or targets.host()
    sizes = default_shapes(plan.graph, {**made.shapes, **shapes})
    concrete = specialise(plan.graph, sizes, control_values(plan.graph, sizes, made.values))
    threads = threads or made.threads
    program = lower(concrete, plan.choices, target, threads, None)
    notes = [] if made.machine in ("", cpu.fingerprint()) else [f"tuned on another machine: {made.machine}"]
    if made.target not in ("", target.name):
        notes.append(f"tuned for {made.target}, shown for {target.name}, with the schedules of {target.name} where it runs")
    return Inspection(
        "plan", str(path), path.stat().st_size, plan.graph.name, target.name, threads,
        tuple(_tensor(name, declared, sizes[name]) for name, declared in plan.graph.inputs.items()),
        tuple(_output(name, None, concrete) for name in plan.graph.outputs),
        _parameters(plan.graph), _layers(concrete, program, target, made.layer_ns), _macs(program), _arena_bytes(program),
        provenance=made, decides={name: made.values.get(name) for name in control_inputs(plan.graph)}, notes=tuple(notes),
    )  # fmt: skip


def inspect_model(path: Path, shapes: Mapping[str, Shape], threads: int | None = None,
                  target: Target | None = None) -> Inspection:
    """A model, with the routines that its layers have by default after all passes.

    Free dimensions are 1 where ``shapes`` says nothing, as in `softneuro.tune`. Raises ModelError for a file that is no
    ONNX model; one that cannot be tuned is inspected as far as it goes. Raises InputError when ``shapes`` does not fit.
    """
    from softneuro.importer.survey import survey

    found, target, threads = survey(path, shapes), target or targets.host(), threads or cpu.allowed_cpus()
    notes = [f"{len(found.missing)} tensors of external data cannot be read: {found.missing[0]}"] if found.missing else []
    problem, concrete, sizes = found.problem, None, dict(shapes)
    decides: dict[str, int | None] = {}
    if found.graph is not None:
        sizes = default_shapes(found.graph, shapes)
        try:
            decides = dict.fromkeys(control_inputs(found.graph, sizes))
            decides |= decided(found.graph, sizes, shapes, {})
            concrete = _as_tuned(found.graph, sizes, decides)
        except SoftneuroError as error:
            problem = str(error)
    program = lower(concrete, {}, target, threads, None) if concrete is not None else None
    return Inspection(
        "model", str(path), path.stat().st_size, found.name, target.name, threads,
        tuple(_tensor(name, declared, sizes.get(name)) for name, declared in found.inputs.items()),
        tuple(_output(name, declared, concrete) for name, declared in found.outputs.items()),
        {dtype: Amount(*amount) for dtype, amount in found.parameters.items()},
        _layers(concrete, program, target, {}) if concrete is not None and program is not None else (),
        _macs(program) if program is not None else None, _arena_bytes(program) if program is not None else None,
        found.producer, found.ir_version, found.opsets, found.operators, _refused(found), problem, None, decides,
        (*notes, *_free_dimensions(found, sizes, shapes)),
    )  # fmt: skip


def _as_tuned(imported: Graph, sizes: Mapping[str, Shape], decides: Mapping[str, int | None]) -> Graph:
    """The graph that tuning chooses routines for: after all passes, at concrete sizes."""
    from softneuro.passes.pipeline import optimise

    values = control_values(imported, sizes, {name: value for name, value in decides.items() if value is not None})
    return specialise(optimise(imported, specialise(imported, sizes, values).types), sizes, values)


def _free_dimensions(found: Survey, sizes: Mapping[str, Shape], shapes: Mapping[str, Shape]) -> list[str]:
    free = [name for name, declared in found.inputs.items()
            if name in sizes and name not in shapes
            and (declared.shape is None or not all(isinstance(d, int) for d in declared.shape))]  # fmt: skip
    texts = [f"{name}={'x'.join(map(str, sizes[name]))}" for name in free]
    return [f"free dimensions taken as {', '.join(texts)}: --shape sets others"] if free else []


def _refused(found: Survey) -> tuple[OperatorRefused, ...]:
    def operator(domain: str, op_type: str) -> str:
        return op_type if domain in ("", "ai.onnx") else f"{domain}.{op_type}"

    return tuple(
        OperatorRefused(node.name, operator(node.domain, node.op_type), node.reason.partition("): ")[2] or node.reason)
        for node in found.refused
    )


def _tensor(name: str, declared: GraphInput, sizes: Shape | None) -> InspectedTensor:
    return InspectedTensor(name, str(declared.dtype), declared.shape, sizes)


def _output(name: str, declared: GraphInput | None, concrete: Graph | None) -> InspectedTensor:
    type_ = concrete.types.get(name) if concrete is not None else None
    if declared is not None and type_ is None:
        return InspectedTensor(name, str(declared.dtype), declared.shape, None)
    if type_ is None:
        return InspectedTensor(name, "", None, None)
    return InspectedTensor(name, str(type_.dtype), declared.shape if declared is not None else type_.shape, type_.shape)


def op_label(op: Op) -> str:
    """An op's name; of an ONNX operator without an op of its own, the operator's type."""
    return f"{op.name} {op.op_type}" if isinstance(op, OnnxOp) else op.name


def _bodies(graph: Graph) -> Sequence[Graph]:
    return [body for layer in graph.layers if isinstance(layer.op, BodyOp) for body in layer.op.bodies().values()]


def _parameters(graph: Graph) -> dict[str, Amount]:
    """Constants by data type, those of bodies included; one that several graphs read counts once."""
    arrays: dict[int, Array] = {}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        arrays |= {id(array): array for array in current.constants.values()}
        waiting.extend(_bodies(current))
    found: dict[str, Amount] = {}
    for array in arrays.values():
        type_ = TensorType.of(array)
        known = found.get(str(type_.dtype), Amount(0, 0))
        found[str(type_.dtype)] = Amount(known.count + array.size, known.nbytes + array.nbytes)
    return found


def _macs(program: Program) -> int:
    return sum(placed.problem.macs() for placed in program.placed if placed.problem is not None)


def _arena_bytes(program: Program) -> int:
    """Bytes of a context's arena, laid out as when the plan runs."""
    alive = [b for b in program.buffers if b.kind is BufferKind.ARENA and b.last >= 0]
    return assign([Interval(b.first, b.last, b.nbytes) for b in alive]).size


def _layers(graph: Graph, program: Program, target: Target, times: Mapping[str, float]) -> tuple[InspectedLayer, ...]:
    layers = {layer.name: layer for layer in graph.layers}
    return tuple(_layer(layers.get(placed.name), placed, graph, target, times) for placed in program.placed)


def _layer(layer: Layer | None, placed: Placed, graph: Graph, target: Target, times: Mapping[str, float]) -> InspectedLayer:
    choice, problem = placed.choice, placed.problem
    native = not choice.routine.endswith(".reference")
    op = layer.op if layer is not None else problem.op if problem is not None else None
    inputs, outputs = (layer.inputs, layer.outputs) if layer is not None else ((), ())
    constants = {name: graph.constants[name] for name in inputs if name in graph.constants}
    known = problem.inputs if problem is not None and layer is None else [graph.types.get(name) for name in inputs]
    made = problem.outputs if problem is not None and layer is None else [graph.types.get(name) for name in outputs if name]
    return InspectedLayer(
        placed.name, op_label(op) if op is not None else "?", _texts(known), _texts(made),
        sum(array.size for array in constants.values()), problem.macs() if problem is not None else 0,
        choice.routine, str(choice.signature), dict(choice.schedule), native, layer is None, times.get(placed.name),
        () if native else _reasons(placed, target),
    )  # fmt: skip


def _texts(types: Sequence[TensorType | None]) -> tuple[str, ...]:
    return tuple("?" if type_ is None else str(type_) for type_ in types)


def _reasons(placed: Placed, target: Target) -> tuple[str, ...]:
    """Why a layer runs on the host."""
    if placed.problem is None:
        return ("its types are known only when it runs, or are not numbers",)
    return tuple(f"{r.routine.name}: {r.reason}" for r in rejections(placed.problem, target)) or ("no routine computes this op",)


def op_count(layers: Sequence[InspectedLayer]) -> tuple[OpCount, ...]:
    """The layers by op, adapts left out: most multiply-adds first, then most layers."""
    groups: dict[str, list[InspectedLayer]] = {}
    for layer in layers:
        if not layer.adapt:
            groups.setdefault(layer.op, []).append(layer)
    rows = [
        OpCount(op, len(group), sum(layer.native for layer in group), sum(not layer.native for layer in group),
                sum(layer.macs for layer in group), sum(layer.parameters for layer in group))
        for op, group in groups.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.macs, -row.layers, row.op)))


def routine_count(layers: Sequence[InspectedLayer]) -> tuple[RoutineCount, ...]:
    """The layers and adapts by routine: those that take longest first, then most layers."""
    groups: dict[str, list[InspectedLayer]] = {}
    for layer in layers:
        groups.setdefault(layer.routine, []).append(layer)
    rows = []
    for routine, group in groups.items():
        times = [layer.predicted_ns for layer in group if layer.predicted_ns is not None]
        rows.append(RoutineCount(routine, len(group), sum(times) if times else None))
    return tuple(sorted(rows, key=lambda row: (-(row.predicted_ns or 0.0), -row.layers, row.routine)))
