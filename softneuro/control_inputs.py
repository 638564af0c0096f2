"""Inputs that decide what runs: small numbers from which the condition of a branch, or a size, can be computed before a run.

    sr ── equal 16000 ── If(then: …, else: …)      a session makes a program for each value of sr, without the If

Where a condition depends on other data too, no input decides it alone, and the branch is chosen during the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from softneuro.control import BodyOp, If
from softneuro.errors import DynamicShape, SoftneuroError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.shape import Shape as ShapeOf
from softneuro.ops.shape import Size
from softneuro.specialise import specialise
from softneuro.types import Array

__all__ = ["branch_inputs", "control_inputs", "control_values", "likely_values"]

_Origins = dict[str, frozenset[str]]
"""The inputs that a tensor is computed from, for tensors that depend on no other data of the run."""


def control_inputs(graph: Graph, shapes: Mapping[str, Sequence[int]] | None = None) -> tuple[str, ...]:
    """The names of a graph's control inputs, in order: whole numbers or bools of one element.

    Where types are not known (`Graph.types`, or those at the shapes), only branches count, not sizes. Raises InputError when
    the shapes do not fit the model.
    """
    return _named(graph if shapes is None else replace(graph, types=specialise(graph, shapes).types), sizes=True)


def branch_inputs(graph: Graph) -> tuple[str, ...]:
    """Those of the control inputs that decide which branch of an If runs."""
    return _named(graph, sizes=False)


def _named(graph: Graph, sizes: bool) -> tuple[str, ...]:
    small = {name: frozenset((name,)) for name, declared in graph.inputs.items() if _is_small(declared)}
    found = _deciding(graph, dict(small), sizes) if small else frozenset()
    return tuple(name for name in graph.inputs if name in found)


def control_values(graph: Graph, shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, int]) -> dict[str, Array]:
    """The numbers as arrays of the inputs' types and shapes, for `specialise`."""
    return {name: np.full(tuple(shapes[name]), number, graph.inputs[name].dtype.numpy) for name, number in numbers.items()}


def likely_values(graph: Graph, name: str) -> list[int]:
    """Values that a control input may be meant to have, the likeliest first: numbers that it is compared with, 1 and 0."""
    dtype = graph.inputs[name].dtype.numpy
    if dtype.kind == "b":
        return [1, 0]
    origins: _Origins = {name: frozenset((name,))}
    compared = []
    for layer in graph.layers:
        _follow(layer, graph, origins)
        if isinstance(layer.op, Pointwise) and any(read in origins for read in layer.inputs):
            numbers = [graph.constants[read] for read in layer.inputs if read in graph.constants]
            compared += [int(number.reshape(-1)[0]) for number in numbers if number.size == 1 and number.dtype.kind in "iu"]
    limits = np.iinfo(dtype)
    return [number for number in dict.fromkeys((*compared, 1, 0)) if limits.min <= number <= limits.max]


def _is_small(declared: GraphInput) -> bool:
    if declared.kind or declared.shape is None or declared.dtype.numpy.kind not in "iub":
        return False
    return all(dim == 1 for dim in declared.shape) or (len(declared.shape) == 1 and not isinstance(declared.shape[0], int))


def _deciding(graph: Graph, origins: _Origins, sizes: bool) -> frozenset[str]:
    """The inputs that decide branches (and sizes); ``origins``: of the graph's inputs, extended to its other tensors."""
    found: frozenset[str] = frozenset()
    origins |= {name: frozenset() for name in graph.constants}
    for layer in graph.layers:
        if isinstance(layer.op, If):
            found |= _deciding_branch(layer, layer.op, origins, sizes)
        elif sizes and any(origins.get(name) for name in layer.inputs) and _lacks_values(layer, graph):
            found |= frozenset().union(*(origins.get(name, frozenset()) for name in layer.inputs))
        _follow(layer, graph, origins)
    return found


def _deciding_branch(layer: Layer, op: If, origins: _Origins, sizes: bool) -> frozenset[str]:
    """The inputs that decide an If and, where something does, those that decide what is in its branches."""
    found = origins.get(layer.inputs[0])
    if found is None:
        return frozenset()
    captured = {inner: origins[outer] for inner, outer in zip(op.captures, layer.inputs[1:], strict=True) if outer in origins}
    for branch in (op.then_branch, op.else_branch):
        found |= _deciding(branch, {name: captured[name] for name in branch.inputs if name in captured}, sizes)
    return found


def _follow(layer: Layer, graph: Graph, origins: _Origins) -> None:
    """Enter a layer's outputs where they depend on nothing else than what has origins."""
    read = [name for name in layer.inputs if name]
    if isinstance(layer.op, (ShapeOf, Size)):
        origins.update({name: frozenset() for name in layer.outputs if name})
    elif layer.op.is_repeatable() and all(name in origins or name in graph.constants for name in read):
        of_all = frozenset[str]().union(*(origins.get(name, frozenset()) for name in read))
        origins.update({name: of_all for name in layer.outputs if name})


def _lacks_values(layer: Layer, graph: Graph) -> bool:
    """Whether a layer's sizes depend on what its inputs hold."""
    types = [graph.types.get(name) if name else None for name in layer.inputs]
    if isinstance(layer.op, (BodyOp, OnnxOp)) or any(t is None for t, name in zip(types, layer.inputs, strict=True) if name):
        return False
    op, values = layer.op, [graph.constants.get(name) if name else None for name in layer.inputs]
    try:
        bound = op.bind(types, values)
        while bound is not None:
            op, types, values = bound.op, [types[i] for i in bound.inputs], [values[i] for i in bound.inputs]
            bound = op.bind(types, values)
        op.infer(types)
    except DynamicShape:
        return True
    except (SoftneuroError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return False  # what does not fit these types is said when it is run
    return False
