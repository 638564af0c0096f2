"""How much a layer's data type costs in accuracy: the model run with one layer changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from softneuro.graph import Graph
from softneuro.plan.lower import problem_of
from softneuro.plan.plan import Choice
from softneuro.routines.candidates import narrow_dtypes_of, routine_named
from softneuro.tuning.budget import relative_error
from softneuro.tuning.select import Case
from softneuro.tuning.trials import Outputs, Trials
from softneuro.types import DType

__all__ = ["Sensitivities", "choice_dtypes", "own_dtypes_only", "penalised", "sensitivities"]

Sensitivities = Mapping[str, Mapping[DType, float]]
"""By layer and data type: the square of the relative error of the outputs when this layer alone is kept so."""
Report = Callable[[int, int, str], None]


def choice_dtypes(graph: Graph, threads: int) -> Callable[[str, Choice], frozenset[DType]]:
    """What a choice of a layer keeps tensors as, besides their own types."""
    problems = {layer.name: problem_of(layer, graph, threads) for layer in graph.layers}

    def of(name: str, choice: Choice) -> frozenset[DType]:
        problem = problems.get(name)
        if problem is None:
            return frozenset()
        return narrow_dtypes_of(problem, routine_named(choice.routine, type(problem.op)), choice.signature)

    return of


def own_dtypes_only(case: Case, threads: int) -> Case:
    """The case with the choices alone that keep tensors as their own types, where a layer has any."""
    dtypes = choice_dtypes(case.graph, threads)
    times = {}
    for name, offered in case.times.items():
        times[name] = [pair for pair in offered if not dtypes(name, pair[0])] or offered
    return replace(case, times=times)


def sensitivities(case: Case, base: Mapping[str, Choice], trials: Trials, exact: Outputs, threads: int,
                  report: Report) -> dict[str, dict[DType, float]]:
    """Run the model once for each layer and data type that a choice would keep its tensors as.

    base: choices of the float32 plan; exact: the outputs it is held against. Each layer is tried with its fastest choice
    that keeps most tensors so. report: called with how many runs are done, how many there are, and the layer.
    """
    dtypes = choice_dtypes(case.graph, threads)
    todo: list[tuple[str, DType, Choice]] = []
    for name, offered in case.times.items():
        for dtype in sorted({d for choice, _ in offered for d in dtypes(name, choice)}):
            fitting = [pair for pair in offered if dtypes(name, pair[0]) == {dtype}]
            if fitting:
                todo.append((name, dtype, min(fitting, key=lambda pair: (-_count(pair[0], dtype), pair[1]))[0]))
    floor = relative_error(trials.outputs(base), exact) ** 2
    found: dict[str, dict[DType, float]] = {}
    for index, (name, dtype, choice) in enumerate(todo):
        report(index, len(todo), f"{name} in {dtype}")
        error = relative_error(trials.outputs({**base, name: choice}), exact)
        found.setdefault(name, {})[dtype] = max(error**2 - floor, 0.0)
    report(len(todo), len(todo), "")
    return found


def _count(choice: Choice, dtype: DType) -> int:
    return sum(f is not None and f.dtype is dtype for f in (*choice.signature.inputs, *choice.signature.outputs))


def penalised(cases: Sequence[Case], errors: Sensitivities, ns_per_error: float, threads: int) -> list[Case]:
    """The cases with the error of each choice added to its time, at so many nanoseconds for each unit of squared error."""
    result = []
    for case in cases:
        dtypes = choice_dtypes(case.graph, threads)
        times = {
            name: [(c, ns + ns_per_error * sum(errors[name].get(d, 0.0) for d in dtypes(name, c))) for c, ns in offered]
            if name in errors else offered
            for name, offered in case.times.items()
        }  # fmt: skip
        result.append(replace(case, times=times))
    return result
