"""Transpositions in a row become one, and of reinterpretations in a row only the last stays.

    x ── Transpose(p) ── Transpose(q)     →     x ── Transpose(p∘q)
    x ── Flatten ── Reshape(shape)        →     x ── Reshape(shape)
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.movement import Transpose
from softneuro.ops.view import Flatten, Reshape, Squeeze, Unsqueeze, View
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["movement_chain"]

_VIEWS = (Flatten, Reshape, Squeeze, Unsqueeze, View)


def movement_chain(graph: Graph) -> Graph:
    """The first layer of a chain stays as long as others read it; what cancels out leaves."""
    return sweep(graph, _join)


def _join(draft: Draft, layer: Layer) -> Outcome:
    if not layer.inputs:
        return False
    maker = draft.producer(layer.inputs[0])
    if maker is None:
        return False
    if isinstance(layer.op, Transpose) and isinstance(maker.op, Transpose):
        inner = maker.op.perm
        perm = tuple(inner[axis] for axis in layer.op.perm)
        if perm == tuple(range(len(perm))):
            return draft.bypass(layer, maker.inputs[0])
        draft.replace(layer, replace(layer, op=Transpose(perm), inputs=maker.inputs))
        return True
    if not isinstance(layer.op, _VIEWS) or not isinstance(maker.op, _VIEWS):
        return False
    if _cancel(draft, layer, maker):
        return draft.bypass(layer, maker.inputs[0])
    if not _names_all_sizes(draft, layer):
        return "its sizes come from the shape before it"
    draft.replace(layer, replace(layer, inputs=(maker.inputs[0], *layer.inputs[1:])))
    return True


def _cancel(draft: Draft, layer: Layer, maker: Layer) -> bool:
    """Whether a squeeze and an unsqueeze of the same axes meet."""
    if not isinstance(layer.op, (Squeeze, Unsqueeze)) or not isinstance(maker.op, (Squeeze, Unsqueeze)):
        return False
    rank = draft.rank(maker.outputs[0] if isinstance(maker.op, Unsqueeze) else maker.inputs[0])
    if type(layer.op) is type(maker.op) or layer.op.axes is None or maker.op.axes is None or rank is None:
        return False
    return {axis % rank for axis in layer.op.axes} == {axis % rank for axis in maker.op.axes}


def _names_all_sizes(draft: Draft, layer: Layer) -> bool:
    """Whether the result's shape follows from the number of elements alone."""
    if isinstance(layer.op, Reshape):
        shape = draft.constant(layer.inputs[1])
        return shape is not None and bool((shape != 0).all())
    return isinstance(layer.op, View)
