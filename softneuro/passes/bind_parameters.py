"""Parameters that arrive as constant inputs move into the op, where they do not depend on any size.

    x ──── Pad           x ── Pad(pads=(0, 0, 1, 1, 0, 0, 1, 1))
    pads ──┘        →
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, Layer
from softneuro.ops.movement import Tile
from softneuro.ops.padding import Pad
from softneuro.ops.reduce import Reduce
from softneuro.ops.same_padding import SameConv, SamePool
from softneuro.ops.slicing import Split
from softneuro.ops.view import Squeeze, Unsqueeze
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import TensorType

__all__ = ["bind_parameters"]


def bind_parameters(graph: Graph) -> Graph:
    """Only the forms that are the same for every shape: a Slice or Reshape keeps its inputs until shapes are known."""
    return sweep(graph, _bind)


def _bind(draft: Draft, layer: Layer) -> Outcome:
    values = [draft.constant(name) if name else None for name in layer.inputs]
    types = [draft.hint(name) if name else None for name in layer.inputs]
    if isinstance(layer.op, (SameConv, SamePool)):
        return _bind_same(draft, layer, layer.op, types)
    parameters = [value for name, value in zip(layer.inputs[1:], values[1:], strict=True) if name]
    if not parameters or any(value is None for value in parameters):
        return False
    op = layer.op
    if isinstance(op, (Squeeze, Unsqueeze)) and values[1] is not None:
        named = replace(op, axes=tuple(int(axis) for axis in values[1].reshape(-1)))
        draft.replace(layer, replace(layer, op=named, inputs=layer.inputs[:1]))
        return True
    if not isinstance(op, (Pad, Reduce, Split, Tile)):
        return False
    try:
        bound = op.bind(types, values)
    except SoftneuroError as error:
        return str(error)
    if bound is None:
        return False
    draft.replace(layer, replace(layer, op=bound.op, inputs=tuple(layer.inputs[i] for i in bound.inputs)))
    return True


def _bind_same(draft: Draft, layer: Layer, op: SameConv | SamePool, types: list[TensorType | None]) -> Outcome:
    """With a stride of 1, pads that keep the size do not depend on it."""
    if any(stride != 1 for stride in op.strides) and draft.shape(layer.inputs[0]) is None:
        return "its pads depend on the sizes of its input"
    try:
        static = op.static(types)
    except SoftneuroError as error:
        return str(error)
    draft.replace(layer, replace(layer, op=static))
    return True
