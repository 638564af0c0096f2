"""A layer that runs one graph, replaced by that graph's layers.

x ── call(body: a ── relu ── b) ── y      →      x ── relu ── y
"""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.graph import Graph, Layer
from softneuro.ops.view import Identity
from softneuro.types import Array

__all__ = ["inlined"]


def inlined(layer: Layer, body: Graph, label: str = "") -> tuple[tuple[Layer, ...], Mapping[str, Array]]:
    """Layers and constants that compute ``layer``, which runs ``body`` on its inputs in order.

    Inner names get the layer's name in front, and the label where the layer might have run another graph, so they are
    unique when layer names are, and the same whenever this graph is the one that runs.
    """
    prefix = f"{layer.name}/{label}" if label else layer.name
    names = dict(zip(body.inputs, layer.inputs, strict=True))
    made = {out for inner in body.layers for out in inner.outputs}
    copies: list[Layer] = []
    for source, target in zip(body.outputs, layer.outputs, strict=False):
        if not target:
            continue
        if source in made and source not in names:
            names[source] = target
        else:  # the body passes on an input or a constant, or gives one tensor twice
            copies.append(Layer(f"{prefix}/{target}", Identity(), (source,), (target,)))

    def renamed(name: str) -> str:
        return names.get(name, f"{prefix}/{name}") if name else ""

    layers = [
        Layer(
            f"{prefix}/{inner.name}",
            inner.op,
            tuple(map(renamed, inner.inputs)),
            tuple(map(renamed, inner.outputs)),
        )
        for inner in body.layers
    ]
    layers += [Layer(copy.name, copy.op, tuple(map(renamed, copy.inputs)), copy.outputs) for copy in copies]
    return tuple(layers), {renamed(name): array for name, array in body.constants.items()}
