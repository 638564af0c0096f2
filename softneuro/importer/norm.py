"""Normalisations with given or computed statistics."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.norm import BatchNorm, InstanceNorm, LayerNorm
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.shape import Shape
from softneuro.ops.view import Reshape, Unsqueeze

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


def _lp_norm(node: Node) -> tuple[Layer, ...]:
    """x over its 1-norm or 2-norm along an axis; 0 where that is 0."""
    norm = node.tensor("norm")
    return (
        node.layer(Reduce(f"l{int(node.get('p', 2))}", (int(node.get("axis", -1)),)), outputs=(norm,)),
        node.layer(Pointwise("equal(x1,0.0);div(x0,x1);where(t0,0.0,t1)"), (node.inputs[0], norm)),
    )


def _local_response_norm(node: Node) -> tuple[Layer, ...]:
    """x / (bias + alpha * mean of squares of near channels) ^ beta; the mean is a pooling of (n, 1, c, rest)."""
    size = int(node.get("size"))
    alpha, beta, bias = (float(node.get(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    squares, matrices, planes, means, shape, mean = map(node.tensor, ("squares", "matrices", "planes", "means", "shape", "mean"))
    merged = node.add_constant("merged", np.array([0, 0, -1], np.int64))
    pads = ((size - 1) // 2, 0, size // 2, 0)
    pool = Pool("average", (size, 1), (1, 1), pads, (1, 1), count_include_pad=True)
    program = f"mul(x1,{alpha!r});add(t0,{bias!r});pow(t1,{-beta!r});mul(x0,t2)"
    return (
        node.layer(Pointwise("mul(x0,x0)"), outputs=(squares,)),
        node.layer(Reshape(), (squares, merged), (matrices,)),
        node.layer(Unsqueeze((1,)), (matrices,), (planes,)),
        node.layer(pool, (planes,), (means,)),
        node.layer(Shape(), outputs=(shape,)),
        node.layer(Reshape(allowzero=True), (means, shape), (mean,)),
        node.layer(Pointwise(program), (node.inputs[0], mean)),
    )


CONVERTERS: Converters = {
    "LpNormalization": _lp_norm,
    "LRN": _local_response_norm,
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
}
