"""The graph of a plan as it runs: inputs, layers, adapts and outputs, and the tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softneuro.graph import Graph
from softneuro.ops.adapt import Adapt
from softneuro.plan.plan import adapt_name
from softneuro.plan.program import Placed, Program
from softneuro.runtime.session import Session
from softneuro.runtime.specialisations import Inputs
from softneuro.stages import staged
from softneuro.types import Format

__all__ = ["Edge", "Node", "Picture", "picture_of"]


@dataclass(frozen=True)
class Node:
    """A box: an input or output of the model, or what runs for a layer or adapt. row: its number among `Program.placed`."""

    name: str
    kind: str
    row: int | None = None


@dataclass(frozen=True)
class Edge:
    """A tensor from the node that makes it to one that reads it, by their numbers."""

    source: int
    target: int
    tensor: str


@dataclass(frozen=True)
class Picture:
    """Nodes in the order they run, inputs first and outputs last; edges go from lower to higher numbers."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def picture_of(session: Session, inputs: Inputs) -> Picture:
    """What runs for the input shapes."""
    return _Drafting(staged(session.graph_for(inputs))).draw(session.linked(inputs).program)


class _Drafting:
    """The picture under construction; made: for each tensor the node that makes it in each format."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.edges: dict[Edge, None] = {}
        self.made: dict[str, dict[Format | None, int]] = {}

    def draw(self, program: Program) -> Picture:
        layers = {layer.name: layer for layer in self.graph.layers}
        for name in self.graph.inputs:
            self._make(name, self._row_major(name), self._node(Node(name, "input")))
        for row, item in enumerate(program.placed):
            if item.problem is not None and isinstance(item.problem.op, Adapt):
                self._adapt(item, row)
                continue
            layer = layers[item.name]
            node = self._node(Node(item.name, "layer", row))
            self._read(layer.inputs, item.choice.signature.inputs, node)
            written = [name for name in layer.outputs if name]
            formats = item.choice.signature.outputs
            for index, name in enumerate(written):
                self._make(name, formats[index] if index < len(formats) else None, node)
        for name in self.graph.outputs:
            self._read((name,), (self._row_major(name),), self._node(Node(name, "output")))
        return Picture(tuple(self.nodes), tuple(self.edges))

    def _adapt(self, item: Placed, row: int) -> None:
        """An adapt is known by its name alone: ``adapt <tensor> to <format>``."""
        present, wanted = item.choice.signature.inputs[0], item.choice.signature.outputs[0]
        before, after = adapt_name("\0", wanted).split("\0")
        tensor = item.name.removeprefix(before).removesuffix(after)
        node = self._node(Node(item.name, "adapt", row))
        self._read((tensor,), (present,), node)
        self._make(tensor, wanted, node)

    def _node(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _make(self, tensor: str, format_: Format | None, node: int) -> None:
        self.made.setdefault(tensor, {})[format_] = node

    def _read(self, tensors: Sequence[str], formats: Sequence[Format | None], node: int) -> None:
        """Edges to a node from what makes its inputs, each in the format that is read; constants have none."""
        for index, tensor in enumerate(tensors):
            versions = self.made.get(tensor)
            if versions:
                wanted = formats[index] if index < len(formats) else None
                source = versions.get(wanted, next(iter(versions.values())))
                self.edges[Edge(source, node, tensor)] = None

    def _row_major(self, tensor: str) -> Format | None:
        type_ = self.graph.types.get(tensor)
        return Format.row_major(type_) if type_ is not None else None
