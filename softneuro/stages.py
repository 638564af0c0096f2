"""A specialised graph cut where sizes depend on the data of the run: what comes later is a graph of its own.

    x ── relu ── nonzero ── gather ── conv ── y      →      x ── relu ── nonzero ── later(body: gather ── conv) ── y

The layers that sizes are known for run as ever; the later ones are specialised when their inputs are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from softneuro.control import BodyOp, RunBody
from softneuro.errors import DynamicShape
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Types, Values
from softneuro.types import Array, DType, TensorType

__all__ = ["Later", "staged"]

_LARGEST_PARAMETER = 64  # elements


@dataclass(frozen=True, eq=False)
class Later(BodyOp):
    """A graph whose inputs' sizes only the run tells. Inputs: the graph's inputs in order.

    fixed: inputs whose values it is to be specialised for as well, since sizes follow from them.
    """

    name: ClassVar[str] = "later"
    body: Graph
    fixed: frozenset[str] = frozenset()

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("the sizes depend on the data of the run")

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        return tuple(run(self.body, dict(zip(self.body.inputs, inputs, strict=True))))


def staged(graph: Graph) -> Graph:
    """The specialised graph with all layers that read tensors of unknown types in one last layer, if there are any.

    A layer that only lacks small values (the sizes of a reshape, the bounds of a slice) is among the later ones.
    """
    now: list[Layer] = []
    later: list[Layer] = []
    fixed: set[str] = set()
    postponed: set[str] = set()
    for layer in graph.layers:
        read = {name for name in layer.inputs if name}
        lacking = _lacking_values(layer, graph) if not read & postponed and read <= graph.types.keys() else set()
        if lacking or not read <= graph.types.keys() or read & postponed:
            later.append(layer)
            postponed.update(layer.outputs)
            fixed |= lacking
        else:
            now.append(layer)
    if not later:
        return graph
    return graph.with_layers((*now, _as_one(later, graph, frozenset(fixed))))


def _lacking_values(layer: Layer, graph: Graph) -> set[str]:
    """The inputs whose values a layer needs to be bound; none where values do not help or would be large."""
    types = [graph.types.get(name) if name else None for name in layer.inputs]
    try:
        layer.op.bind(types, [graph.constants.get(name) if name else None for name in layer.inputs])
    except DynamicShape:
        names = {name for name in layer.inputs[1:] if name and name not in graph.constants}
        return names if all(graph.types[name].size <= _LARGEST_PARAMETER for name in names) else set()
    return set()


def _as_one(layers: Iterable[Layer], graph: Graph, fixed: frozenset[str]) -> Layer:
    kept = tuple(layers)
    made = dict.fromkeys(out for layer in kept for out in layer.outputs if out)
    read = dict.fromkeys(name for layer in kept for name in layer.inputs if name and name not in made)
    outputs = tuple(name for name in graph.outputs if name in made)
    inputs = {name: _declared(name, graph) for name in read if name not in graph.constants}
    constants = {name: graph.constants[name] for name in read if name in graph.constants}
    body = Graph(inputs, outputs, kept, constants, {}, graph.name)
    return Layer(f"later: {kept[0].name}", Later(body, fixed), tuple(inputs), outputs)


def _declared(name: str, graph: Graph) -> GraphInput:
    return GraphInput(graph.types[name].dtype if name in graph.types else DType.OTHER, None)
