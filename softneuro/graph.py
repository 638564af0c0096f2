"""The graph: layers over named tensors, in the order they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from softneuro.errors import ModelError
from softneuro.ops.base import Op
from softneuro.quantisation import Quantisation
from softneuro.types import Array, DType, TensorType

__all__ = ["Graph", "GraphInput", "Layer", "live_layers"]


@dataclass(frozen=True)
class GraphInput:
    """A graph input as declared: each dimension a size, a symbol shared between inputs, or None (anything).

    kind: what `DType.OTHER` stands for, where it is known: numpy's name of the element type (``float8_e4m3fn``),
    ``sequence(…)``, ``optional(…)``, ``map(key,…)``, one within another; empty for all other data types.
    """

    dtype: DType
    shape: tuple[int | str | None, ...] | None
    kind: str = ""


@dataclass(frozen=True)
class Layer:
    """An op applied to named tensors; the empty name stands for an optional input or output that is absent."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Layers in topological order. Every tensor has one producer: an input, a constant or a layer.

    types holds what is known of the tensors' types: complete after `specialise`, else for the shapes that were
    looked at when the passes ran (hints, not promises). quantisations: how float tensors may be kept in 8 bits, by name;
    the others may not.
    """

    inputs: Mapping[str, GraphInput]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    constants: Mapping[str, Array]
    types: Mapping[str, TensorType] = field(default_factory=dict)
    name: str = "model"
    quantisations: Mapping[str, Quantisation] = field(default_factory=dict)

    def producers(self) -> dict[str, Layer]:
        """Tensor name to the layer that makes it."""
        return {out: layer for layer in self.layers for out in layer.outputs if out}

    def with_layers(self, layers: Iterable[Layer], constants: Mapping[str, Array] | None = None) -> Graph:
        """The graph with other layers (and constants), unused constants dropped."""
        kept = tuple(layers)
        used = {name for layer in kept for name in layer.inputs} | set(self.outputs)
        pool = self.constants if constants is None else constants
        return replace(self, layers=kept, constants={n: a for n, a in pool.items() if n in used})

    def verify(self) -> None:
        """Raise ModelError when a tensor is read before it is made, made twice, or an output is missing."""
        made = set(self.inputs) | set(self.constants)
        for layer in self.layers:
            for name in layer.inputs:
                if name and name not in made:
                    raise ModelError(f"layer {layer.name!r} ({layer.op.name}): reads {name!r}, which nothing made before it")
            for name in layer.outputs:
                if name and name in made:
                    raise ModelError(f"layer {layer.name!r} ({layer.op.name}): makes {name!r}, which exists already")
                made.add(name)
        for name in self.outputs:
            if name not in made:
                raise ModelError(f"graph {self.name!r}: output {name!r} is made by no layer")

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)


def live_layers(graph: Graph) -> tuple[Layer, ...]:
    """The layers that some graph output depends on, in order."""
    wanted = set(graph.outputs)
    kept: list[Layer] = []
    for layer in reversed(graph.layers):
        if any(out in wanted for out in layer.outputs if out):
            kept.append(layer)
            wanted.update(layer.inputs)
    return tuple(reversed(kept))
