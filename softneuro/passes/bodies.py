"""Passes inside of layers that hold graphs.

x ── if(then: mul ── add, else: ...) ── y      →      x ── if(then: fused, else: ...) ── y
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from softneuro.control import BodyOp
from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Types
from softneuro.passes.fold_constants import fold_constants
from softneuro.specialise import specialise
from softneuro.types import TensorType

__all__ = ["rewrite_bodies"]

Optimise = Callable[[Graph, Mapping[str, TensorType]], Graph]


def rewrite_bodies(graph: Graph, optimise: Optimise) -> Graph:
    """The graph with the bodies of its layers rewritten; in a body whose input types are not known only constants are folded."""
    return replace(graph, layers=tuple(_rewritten(layer, graph, optimise) for layer in graph.layers))


def _rewritten(layer: Layer, graph: Graph, optimise: Optimise) -> Layer:
    op = layer.op
    if not isinstance(op, BodyOp):
        return layer
    types = [graph.types.get(name) if name else None for name in layer.inputs]
    try:
        inner = {id(body): known for body, known in op.inner_types(types)}
    except SoftneuroError:
        inner = {}
    return _with_bodies(layer, lambda body: _optimised(body, inner[id(body)], optimise) if id(body) in inner else _folded(body))


def _optimised(body: Graph, types: Types, optimise: Optimise) -> Graph:
    """The body, its inputs declared as before; sizes count as free, since loops may change them.

    A branch that does not take these sizes may take others, and is rewritten without knowing any.
    """
    known = {name: type_ for name, type_ in zip(body.inputs, types, strict=True) if type_ is not None}
    if len(known) < len(body.inputs):
        return _folded(body)
    free = {name: GraphInput(type_.dtype, (None,) * type_.rank) for name, type_ in known.items()}
    try:
        hints = specialise(replace(body, inputs=free), {name: type_.shape for name, type_ in known.items()}).types
    except SoftneuroError:
        hints = {}
    try:
        return replace(optimise(replace(body, inputs=free), hints), inputs=body.inputs, types=body.types)
    except SoftneuroError:
        return _folded(body)


def _folded(body: Graph) -> Graph:
    """The body, and those inside of it, with what needs no types: layers of constants computed."""
    layers = tuple(_with_bodies(layer, _folded) for layer in body.layers)
    try:
        return replace(fold_constants(replace(body, layers=layers)), inputs=body.inputs, types=body.types)
    except SoftneuroError:
        return body


def _with_bodies(layer: Layer, change: Callable[[Graph], Graph]) -> Layer:
    if not isinstance(layer.op, BodyOp):
        return layer
    return replace(layer, op=replace(layer.op, **{name: change(body) for name, body in layer.op.bodies().items()}))
