"""A branch that is known to be taken becomes part of the graph.

    true ── If(then: x ── Relu, else: …) ── y     →     x ── Relu ── y
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.control import Call, If
from softneuro.graph import Graph, Layer
from softneuro.ops.view import Identity
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["inline_branch"]


def inline_branch(graph: Graph) -> Graph:
    """If layers with a constant condition, and Call layers, which are such for the shapes of the graph."""
    return sweep(graph, _inline)


def _inline(draft: Draft, layer: Layer) -> Outcome:
    if isinstance(layer.op, Call):
        names = dict(zip(layer.op.body.inputs, layer.inputs, strict=True))
        draft.replace(layer, *_body_layers(draft, layer, layer.op.body, names))
        return True
    if not isinstance(layer.op, If):
        return False
    condition = draft.constant(layer.inputs[0])
    if condition is None or condition.size != 1:
        return "its condition is computed at run time"
    captured = dict(zip(layer.op.captures, layer.inputs[1:], strict=True))
    draft.replace(layer, *_body_layers(draft, layer, layer.op.branch(condition), captured))
    return True


def _body_layers(draft: Draft, layer: Layer, body: Graph, names: dict[str, str]) -> list[Layer]:
    """The body's layers between the tensors around it; ``names``: the body's inputs to tensors of the draft."""
    known = dict(names)
    results = {inner: outer for inner, outer in zip(body.outputs, layer.outputs, strict=False) if outer}
    for name, value in body.constants.items():
        known[name] = draft.add_constant(f"{layer.name}/{name}", value)
    made = [name for inner in body.layers for name in inner.outputs if name]
    known.update((name, results.pop(name) if name in results else draft.fresh(f"{layer.name}/{name}")) for name in made)
    layers = [
        replace(
            inner,
            name=f"{layer.name}/{inner.name}",
            inputs=tuple(known[n] if n else "" for n in inner.inputs),
            outputs=tuple(known[n] if n else "" for n in inner.outputs),
        )
        for inner in body.layers
    ]
    passed = [(known[inner], outer) for inner, outer in zip(body.outputs, layer.outputs, strict=False)
              if outer and known[inner] != outer]
    return [*layers, *(Layer(f"{layer.name}/{outer}", Identity(), (inner,), (outer,)) for inner, outer in passed)]
