"""Normalisations with given or computed statistics."""

from __future__ import annotations

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.norm import BatchNorm, InstanceNorm, LayerNorm
from softneuro.ops.pointwise import Pointwise

__all__ = ["CONVERTERS"]


def _layer_norm(node: Node) -> tuple[Layer, ...] | None:
    """Asked for statistics (outputs 1 and 2), the reference runs it. onnxruntime takes it at any opset."""
    if not node.only_output():
        return None
    op = LayerNorm(int(node.get("axis", -1)), float(node.get("epsilon", 1e-5)), node.has(2))
    return (node.layer(op, outputs=node.outputs[:1]),)


def _batch_norm(node: Node) -> tuple[Layer, ...] | None:
    """Training (with its extra outputs) is left to the reference; so is a matrix of features without a channel axis."""
    if not node.only_output() or node.get("training_mode", 0):
        return None
    epsilon = float(node.get("epsilon", 1e-5))
    if not node.get("spatial", 1):  # up to opset 8: statistics for every element of an image
        program = f"add(x4,{epsilon!r});sqrt(t0);sub(x0,x3);div(t2,t1);mul(t3,x1);add(t4,x2)"
        return (node.layer(Pointwise(program), outputs=node.outputs[:1]),)
    rank = node.rank(0)
    return None if rank is not None and rank < 2 else (node.layer(BatchNorm(epsilon), outputs=node.outputs[:1]),)


def _instance_norm(node: Node) -> tuple[Layer, ...]:
    return (node.layer(InstanceNorm(float(node.get("epsilon", 1e-5)))),)


CONVERTERS: Converters = {
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
}
