"""A layer normalisation that is spelled out becomes one layer; its scale and bias follow in affine_into_producer.

    d = x - ReduceMean(x)
    y = d / Sqrt(ReduceMean(d * d) + epsilon)     →     y = LayerNorm(x)
"""

from __future__ import annotations

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.ops.norm import LayerNorm
from softneuro.ops.pointwise import Pointwise
from softneuro.passes.expression import Apply, Expression, Leaf, Product, Sum, expand
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["spelled_layer_norm"]

_DEPTH = 6


def spelled_layer_norm(graph: Graph) -> Graph:
    """Over the last axes only: statistics over others are another normalisation."""
    return sweep(graph, _respell)


def _respell(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or not draft.is_float(layer.outputs[0]):
        return False
    found = _quotient(draft, layer)
    if found is None:
        return False
    centred, axes, epsilon = found
    source = _centred_source(draft, centred, axes)
    if source is None:
        return f"{centred!r} is not centred over axes {axes}"
    if axes != tuple(float(axis) for axis in range(-len(axes), 0)):
        return f"the statistics are over axes {axes}, needed the last ones"
    dtype = draft.dtype(layer.outputs[0])
    assert dtype is not None
    scale = draft.add_constant(f"{layer.name}.scale", np.ones(1, dtype.numpy))
    op = LayerNorm(-len(axes), epsilon)
    draft.replace(layer, Layer(layer.name, op, (source, scale), layer.outputs))
    return True


def _quotient(draft: Draft, layer: Layer) -> tuple[str, tuple[float, ...], float] | None:
    """The centred tensor, the axes and the epsilon, when the layer divides by a standard deviation."""
    match expand(draft, layer.outputs[0], _DEPTH):
        case Product(1.0, (Leaf(d), Apply("reciprocal", (Apply("sqrt", (inner,)),)))):
            match inner:
                case Sum(epsilon, (Apply("reduce_mean", (Product(1.0, (Leaf(first), Leaf(second))),), axes),)):
                    return (d, axes, epsilon) if first == second == d else None
    return None


def _centred_source(draft: Draft, centred: str, axes: tuple[float, ...]) -> str | None:
    """The tensor x, when ``centred`` is x minus its mean over the axes."""
    for depth in (1, 2, 3):
        expression: Expression = expand(draft, centred, depth)
        match expression:
            case Sum(0.0, (Leaf(x), Product(-1.0, (Apply("reduce_mean", (Leaf(same),), found),)))):
                return x if x == same and found == axes else None
    return None
