"""Two layers with the same op and inputs become one (common subexpression elimination).

    x ─┬─ Sigmoid ── a          x ── Sigmoid ─┬─ a
       └─ Sigmoid ── b    →                   └─ b
"""

from __future__ import annotations

from itertools import zip_longest

from softneuro.graph import Graph, Layer
from softneuro.ops.onnx_op import OnnxOp
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["share_layers"]

_MAX_CONSTANT = 64  # elements: constants up to this size are compared by value, larger ones by name


def share_layers(graph: Graph) -> Graph:
    """Compute equal things once. `OnnxOp` layers are left alone: they may draw random numbers."""
    seen: dict[object, Layer] = {}

    def share(draft: Draft, layer: Layer) -> Outcome:
        if isinstance(layer.op, OnnxOp):
            return False
        key = (layer.op, tuple(_identity(draft, name) for name in layer.inputs))
        try:
            first = seen.setdefault(key, layer)
        except TypeError:  # an op that holds graphs cannot be compared
            return False
        if first.outputs == layer.outputs:
            return False
        if any(output and not other for output, other in zip_longest(layer.outputs, first.outputs, fillvalue="")):
            return f"layer {first.name!r} makes the same, but without all its outputs"
        if any(draft.is_output(output) for output in layer.outputs):
            return f"layer {first.name!r} makes the same, but this one makes a graph output"
        for output, other in zip_longest(layer.outputs, first.outputs, fillvalue=""):
            if output:
                draft.read_instead(layer, output, other)
        return True

    return sweep(graph, share)


def _identity(draft: Draft, name: str) -> object:
    """What two inputs have in common when they have the same value."""
    value = draft.constant(name)
    if value is None or value.size > _MAX_CONSTANT or value.dtype.hasobject:
        return name
    return (value.dtype.str, value.shape, value.tobytes())
