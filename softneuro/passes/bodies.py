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
from softneuro.specialise import specialise
from softneuro.types import TensorType

__all__ = ["rewrite_bodies"]

Optimise = Callable[[Graph, Mapping[str, TensorType]], Graph]


def rewrite_bodies(graph: Graph, optimise: Optimise) -> Graph:
    """The graph with the bodies of its layers rewritten; a body whose input types are not known stays as it is."""
    return replace(graph, layers=tuple(_rewritten(layer, graph, optimise) for layer in graph.layers))


def _rewritten(layer: Layer, graph: Graph, optimise: Optimise) -> Layer:
    op = layer.op
    if not isinstance(op, BodyOp):
        return layer
    types = [graph.types.get(name) if name else None for name in layer.inputs]
    try:
        inner = {id(body): known for body, known in op.inner_types(types)}
    except SoftneuroError:
        return layer
    bodies = {
        name: _optimised(body, inner[id(body)], optimise) for name, body in op.bodies().items() if id(body) in inner
    }  # fmt: skip
    return replace(layer, op=replace(op, **bodies))


def _optimised(body: Graph, types: Types, optimise: Optimise) -> Graph:
    """The body, its inputs declared as before; sizes count as free, since loops may change them."""
    known = {name: type_ for name, type_ in zip(body.inputs, types, strict=True) if type_ is not None}
    if len(known) < len(body.inputs):
        return body
    free = {name: GraphInput(type_.dtype, (None,) * type_.rank) for name, type_ in known.items()}
    try:
        hints = specialise(replace(body, inputs=free), {name: type_.shape for name, type_ in known.items()}).types
        return replace(optimise(replace(body, inputs=free), hints), inputs=body.inputs, types=body.types)
    except SoftneuroError:
        return body  # a branch that does not take these inputs
