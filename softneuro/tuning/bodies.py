"""Graphs inside of layers: the types that they run at, as far as these are known before a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from softneuro.control import BodyOp
from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, GraphInput
from softneuro.ops.base import Types
from softneuro.specialise import specialise

__all__ = ["has_bodies", "has_unknown_types", "specialised_bodies"]


def has_bodies(graph: Graph) -> bool:
    """Whether any layer holds graphs."""
    return any(isinstance(layer.op, BodyOp) for layer in graph.layers)


def has_unknown_types(graph: Graph) -> bool:
    """Whether types of a specialised graph depend on the data of the run."""
    return any(name and name not in graph.types for layer in graph.layers for name in layer.outputs)


def specialised_bodies(graph: Graph) -> Iterator[Graph]:
    """The graphs inside of a specialised graph's layers, specialised too, and those inside of them.

    Left out are those whose input types only a run tells, and those that refuse them: branches that are not meant then.
    """
    for layer in graph.layers:
        if isinstance(layer.op, BodyOp):
            types = [graph.types.get(name) if name else None for name in layer.inputs]
            for body, inner in _inner(layer.op, types):
                found = _specialised(body, inner)
                if found is not None:
                    yield found
                    yield from specialised_bodies(found)


def _inner(op: BodyOp, types: Types) -> list[tuple[Graph, Types]]:
    try:
        return op.inner_types(types)
    except SoftneuroError:
        return []


def _specialised(body: Graph, types: Types) -> Graph | None:
    known = {name: type_ for name, type_ in zip(body.inputs, types, strict=True) if type_ is not None}
    if len(known) < len(body.inputs):
        return None
    inputs = {name: GraphInput(type_.dtype, type_.shape) for name, type_ in known.items()}
    try:
        return specialise(replace(body, inputs=inputs), {name: type_.shape for name, type_ in known.items()})
    except SoftneuroError:
        return None
