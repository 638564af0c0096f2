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
from softneuro.types import DType

__all__ = ["CONVERTERS"]


def _layer_norm(node: Node) -> tuple[Layer, ...] | None:
    """Without a known rank, the reference gives the statistics (outputs 1 and 2). onnxruntime takes it at any opset."""
    axis, epsilon = int(node.get("axis", -1)), float(node.get("epsilon", 1e-5))
    norm = node.layer(LayerNorm(axis, epsilon, node.has(2)), outputs=node.outputs[:1])
    if node.only_output():
        return (norm,)
    rank = node.rank(0)
    if rank is None or node.dtype(0) not in (DType.F32, DType.F64):
        return None
    axes = tuple(range(axis % rank, rank))
    mean, deviation = (name or node.tensor("statistic") for name in (*node.outputs[1:], "")[:2])
    squares, variance = node.tensor("squares"), node.tensor("variance")
    return (
        norm,
        node.layer(Reduce("mean", axes), node.inputs[:1], (mean,)),
        node.layer(Pointwise("sub(x0,x1);mul(t0,t0)"), (node.inputs[0], mean), (squares,)),
        node.layer(Reduce("mean", axes), (squares,), (variance,)),
        node.layer(Pointwise(f"add(x0,{epsilon!r});sqrt(t0);reciprocal(t1)"), (variance,), (deviation,)),
    )


def _batch_norm(node: Node) -> tuple[Layer, ...] | None:
    """Training (with its extra outputs) is left to the reference; so is a matrix of features without a channel axis.

    Statistics that are computed make it a Pointwise; those of a weight file may yet go into a convolution.
    """
    if not node.only_output() or node.get("training_mode", 0):
        return None
    epsilon, rank = float(node.get("epsilon", 1e-5)), node.rank(0)
    program = f"add(x4,{epsilon!r});sqrt(t0);sub(x0,x3);div(t2,t1);mul(t3,x1);add(t4,x2)"
    if not node.get("spatial", 1):  # up to opset 8: statistics for every element of an image
        return (node.layer(Pointwise(program), outputs=node.outputs[:1]),)
    if rank is not None and rank < 2:
        return None
    if rank is None or all(node.constant(position) is not None for position in range(1, 5)):
        return (node.layer(BatchNorm(epsilon), outputs=node.outputs[:1]),)
    aligned = [_per_channel(node, position, rank) for position in range(1, 5)]
    inputs = (node.inputs[0], *(layer.outputs[0] for layer in aligned))
    return (*aligned, node.layer(Pointwise(program), inputs, node.outputs[:1]))


def _per_channel(node: Node, position: int, rank: int) -> Layer:
    """An input with a number for each channel, with the axes that make it broadcast to ``rank`` axes."""
    return node.layer(Unsqueeze(tuple(range(1, rank - 1))), (node.inputs[position],), (node.tensor("aligned"),))


def _group_norm(node: Node) -> tuple[Layer, ...] | None:
    """Groups of channels as the channels of an InstanceNorm; from opset 21 on, scale and bias are of channels."""
    groups, rank = int(node.get("num_groups")), node.rank(0)
    if rank is None or node.dtype(0) not in (DType.F32, DType.F64):
        return None
    op = InstanceNorm(float(node.get("epsilon", 1e-5)))
    merged = node.add_constant("merged", np.array([0, groups, -1], np.int64))
    rows, normed, shape, image = map(node.tensor, ("rows", "normed", "shape", "image"))
    ones, zeros = (np.full(groups, number, node.dtype(0).numpy) for number in (1, 0))
    of_groups = node.opset < 21
    factors = node.inputs[1:] if of_groups else (node.add_constant("ones", ones), node.add_constant("zeros", zeros))
    layers = (
        node.layer(Reshape(), (node.inputs[0], merged), (rows,)),
        node.layer(op, (rows, *factors), (normed,)),
        node.layer(Shape(), node.inputs[:1], (shape,)),
        node.layer(Reshape(allowzero=True), (normed, shape), node.outputs if of_groups else (image,)),
    )
    if of_groups:
        return layers
    scale, bias = (_per_channel(node, position, rank) for position in (1, 2))
    inputs = (image, scale.outputs[0], bias.outputs[0])
    return (*layers, scale, bias, node.layer(Pointwise("mul(x0,x1);add(t0,x2)"), inputs))


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
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
}
