"""What an outline (a program lowered without weights) tells: the choices made, and the kernels they may need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.plan.defaults import choice_of, default_choice
from softneuro.plan.plan import Choice
from softneuro.plan.program import NativeStep, Placed, Program
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.candidates import candidates, narrow_dtypes_of, routine_named
from softneuro.types import DType, Format, Layout, TensorType

__all__ = ["choices_of", "kernels_of"]


def choices_of(program: Program) -> dict[str, Choice]:
    """What every layer and adapt runs with, but for layers on the host: for those, other shapes may find a routine."""
    return {p.name: p.choice for p in program.placed if not p.choice.routine.endswith(".reference")}


def kernels_of(program: Program, target: Target) -> tuple[KernelSpec, ...]:
    """The kernels that the program launches, and that its choices may launch for other shapes of the inputs.

    Other shapes may also need conversions that these spare: those between all formats that layers keep tensors of the
    same type in. Where tensors are kept as other data types, they may also need the layer's default.
    """
    launched = [step.kernel for step in program.steps if isinstance(step, NativeStep)]
    chosen = [(p.problem, p.choice) for p in program.placed if p.problem is not None]
    for problem, choice in (*chosen, *_adapts(program.placed, target)):
        routine = routine_named(choice.routine, type(problem.op))
        if routine is not None:
            launched += routine.kernels(problem, choice.signature, choice.schedule, target)
        if narrow_dtypes_of(problem, routine, choice.signature) and not isinstance(problem.op, Adapt):
            launched += _default_kernels(problem, target)
    return tuple(dict.fromkeys(launched))


def _default_kernels(problem: Problem, target: Target) -> Iterator[KernelSpec]:
    """Those of the defaults of a problem, whatever formats its inputs are in."""
    types = problem.inputs
    for layout in Layout:
        choice = default_choice(problem, target, lambda i: [Format(t.dtype, layout)] if (t := types[i]) is not None else [])  # noqa: B023
        routine = routine_named(choice.routine, type(problem.op))
        if routine is not None:
            built = routine.build(problem, choice.signature, choice.schedule, target)
            yield from (launch.kernel for launch in built.launches)
            yield from routine.kernels(problem, choice.signature, choice.schedule, target)


def _adapts(placed: Iterable[Placed], target: Target) -> Iterator[tuple[Problem, Choice]]:
    types: dict[TensorType, None] = {}
    used: set[Format | None] = set()
    for layer in placed:
        used |= {*layer.choice.signature.inputs, *layer.choice.signature.outputs}
        if layer.problem is not None:
            types |= dict.fromkeys(t for t in (*layer.problem.inputs, *layer.problem.outputs) if t is not None)
    bytewise = Quantisation(1.0, 0) if any(f is not None and f.dtype is DType.QINT8 for f in used) else None
    for type_ in types:
        quantisation = bytewise if type_.dtype is DType.F32 else None
        problem = Problem(Adapt(), (type_,), (type_,), (False,)).quantised((quantisation, quantisation))
        formats = used.union(Format(type_.dtype, layout) for layout in Format.layouts_of(type_))
        for candidate in candidates(problem, target):
            if {*candidate.signature.inputs, *candidate.signature.outputs} <= formats:
                yield problem, choice_of(candidate)
