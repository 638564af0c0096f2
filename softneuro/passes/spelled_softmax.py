"""A softmax that is spelled out becomes one layer.

    x ── Sub ── Exp ─┬──────────── Div ── y
          │          └─ ReduceSum ──┘            →     x ── Softmax ── y
     ReduceMax(x)
"""

from __future__ import annotations

from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.softmax import Softmax
from softneuro.passes.expression import Apply, Expression, Leaf, Product, Sum, expand
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["spelled_softmax"]


def spelled_softmax(graph: Graph) -> Graph:
    """With or without the maximum subtracted, over one axis."""
    return sweep(graph, _respell)


def _respell(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or not draft.is_float(layer.outputs[0]):
        return False
    match expand(draft, layer.outputs[0], 3):
        case Product(1.0, (Leaf(exponential), Apply("reciprocal", (Apply("reduce_sum", (Leaf(same),), axes),)))):
            if exponential != same or len(axes) != 1:
                return False
        case _:
            return False
    for depth in (3, 2, 1):  # the longer form first: the shorter one is its beginning
        source = _exponent(expand(draft, exponential, depth), axes)
        if source is not None:
            draft.replace(layer, Layer(layer.name, Softmax(int(axes[0])), (source,), layer.outputs))
            return True
    return False


def _exponent(expression: Expression, axes: tuple[float, ...]) -> str | None:
    """The tensor x of exp(x) or exp(x - max(x))."""
    match expression:
        case Apply("exp", (Leaf(x),)):
            return x
        case Apply("exp", (Sum(0.0, (Leaf(x), Product(-1.0, (Apply("reduce_max", (Leaf(same),), found),)))),)):
            return x if x == same and found == axes else None
    return None
