"""The values of inputs that decide what runs: those that are asked for, checked, and likely ones for the rest."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softneuro.control_inputs import branch_inputs, control_inputs, control_values, likely_values
from softneuro.errors import InputError, SoftneuroError
from softneuro.graph import Graph
from softneuro.plan.plan import Plan
from softneuro.specialise import specialise
from softneuro.tuning.free_sizes import advised
from softneuro.types import DType, Shape

__all__ = ["decided", "plan_graph"]

_log = logging.getLogger(__name__)


def decided(graph: Graph, sizes: Mapping[str, Shape], shapes: Mapping[str, Sequence[int]],
            asked: Mapping[str, Any]) -> dict[str, int]:
    """The values to tune with at these sizes: those asked for, and for the other inputs that decide a branch the first likely
    one that the model takes (none where it takes none of them).

    shapes: the sizes that somebody asked for. Raises InputError for a value that does not fit, and, with advice, when the
    model does not take sizes that nobody asked for.
    """
    try:
        control = [name for name in control_inputs(graph, sizes) if np.prod(sizes[name]) == 1]
    except InputError as error:
        raise advised(error, graph, sizes, shapes, {}) from error
    values = {name: _checked(graph, name, value, control) for name, value in asked.items()}
    for name in branch_inputs(graph):
        if name in control and name not in values:
            found = _likely(graph, sizes, name, values, shapes)
            values |= {} if found is None else {name: found}
    if asked:
        try:
            specialise(graph, sizes, control_values(graph, sizes, values))
        except InputError as error:
            raise advised(error, graph, sizes, shapes, values) from error
    return values


def plan_graph(plan: Plan) -> Graph:
    """A plan's graph, specialised for the first set of sizes and values that it was tuned for."""
    made = plan.provenance
    return specialise(plan.graph, made.shapes, control_values(plan.graph, made.shapes, made.values))


def _likely(graph: Graph, sizes: Mapping[str, Shape], name: str, values: Mapping[str, int],
            shapes: Mapping[str, Sequence[int]]) -> int | None:
    """The first likely value with which the model takes the sizes. Raises InputError when there is none and nobody asked for
    the sizes."""
    first: SoftneuroError | None = None
    likely = likely_values(graph, name)
    for number in likely:
        try:
            specialise(graph, sizes, control_values(graph, sizes, {**values, name: number}))
        except SoftneuroError as error:
            first = first or error
        else:
            _log.info("input %r decides which branch runs: tuned for %d", name, number)
            return number
    if isinstance(first, InputError):
        better = advised(first, graph, sizes, shapes, {**values, name: likely[0]})
        if better is not first:
            raise better
    return None


def _checked(graph: Graph, name: str, value: Any, control: Sequence[str]) -> int:
    """The value as a number. Raises InputError when the input takes no such number, or decides nothing."""
    if name not in control:
        some = f"one of {', '.join(map(repr, control))}" if control else "no values for this model"
        raise InputError(f"values: found input {name!r}, which does not decide what runs, needed {some}")
    dtype = graph.inputs[name].dtype
    least, most = (0, 1) if dtype is DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
    array = np.asarray(value)
    number = array.reshape(-1)[0] if array.size == 1 and array.dtype.kind in "iubf" else None
    if number is None or not least <= number <= most or int(number) != number:
        raise InputError(f"values: found {value!r:.80} for input {name!r}, needed a whole number from {least} to {most}")
    return int(number)
