"""A pointwise program reads every tensor at one position.

    x ─┬─ add(x0,x1)     →     x ── add(x0,x0)
       ┘
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Pointwise, renumber
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["join_inputs", "joined_inputs"]


def join_inputs(graph: Graph) -> Graph:
    """So that a tensor that only one program needs can be seen to be read once."""
    return sweep(graph, _join)


def _join(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or len(set(layer.inputs)) == len(layer.inputs):
        return False
    draft.replace(layer, joined_inputs(layer, layer.op.program))
    return True


def joined_inputs(layer: Layer, program: str) -> Layer:
    """The layer with this program of its inputs, and every tensor once among them."""
    names = tuple(dict.fromkeys(layer.inputs))
    positions = [names.index(name) for name in layer.inputs]
    return replace(layer, op=Pointwise(renumber(program, positions)), inputs=names)
