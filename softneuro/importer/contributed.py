"""Operators of onnxruntime's domain that its optimiser writes into transformers, as layers of ours."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.importer.windows import windows_of
from softneuro.ops.gather import Gather
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.norm import LayerNorm
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.slicing import Split
from softneuro.ops.softmax import Softmax
from softneuro.ops.view import Reshape, Unsqueeze

__all__ = ["MICROSOFT", "SIMPLIFIED"]


def _normalised(node: Node, source: str, scale: str, bias: str, *, mean: bool) -> tuple[Layer, ...]:
    """Layer normalisation of the last axis to the node's first output; without the mean, over the root of mean squares."""
    epsilon = float(node.get("epsilon", 1e-12 if node.op_type == "EmbedLayerNormalization" else 1e-5))
    if mean:
        inputs = (source, scale, bias) if bias else (source, scale)
        return (node.layer(LayerNorm(-1, epsilon, bool(bias)), inputs, node.outputs[:1]),)
    squares, power = node.tensor("squares"), node.tensor("power")
    return (
        node.layer(Pointwise("mul(x0,x0)"), (source,), (squares,)),
        node.layer(Reduce("mean", (-1,)), (squares,), (power,)),
        node.layer(Pointwise(f"add(x1,{epsilon!r});sqrt(t0);div(x0,t1);mul(t2,x2)"), (source, power, scale), node.outputs[:1]),
    )


def _skip_norm(*, mean: bool) -> Converter:
    """The sum of input, skip and an optional bias, normalised; output 3 is that sum."""

    def convert(node: Node) -> tuple[Layer, ...] | None:
        total = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3] else node.tensor("sum")
        if any(node.outputs[1:3]):
            return None
        bias = 4 if mean else 3
        program = "add(x0,x1);add(t0,x2)" if node.has(bias) else "add(x0,x1)"
        inputs = (*node.inputs[:2], *node.inputs[bias : bias + 1])
        beta = node.inputs[3] if mean and node.has(3) else ""
        return (node.layer(Pointwise(program), inputs, (total,)), *_normalised(node, total, node.inputs[2], beta, mean=mean))

    return convert


def _simplified_norm(node: Node) -> tuple[Layer, ...] | None:
    if any(node.outputs[1:]) or int(node.get("axis", -1)) != -1:
        return None
    return _normalised(node, node.inputs[0], node.inputs[1], "", mean=False)


def _embed_norm(node: Node) -> tuple[Layer, ...] | None:
    """Words (2) plus positions (3) plus segments (4) by ids (n, steps), normalised by gamma (5) and beta (6).

    Output 1 counts the ones of a mask (7), output 2 is what is normalised.
    """
    shape = node.shape(0)
    if node.has(8) or shape is None or shape[1] is None:
        return None
    names = [node.tensor(what) for what in ("words", "positions", "segments")]
    order = node.add_constant("order", np.arange(shape[1], dtype=np.int64))
    layers = [
        node.layer(Gather(0), (node.inputs[2], node.inputs[0]), names[:1]),
        node.layer(Gather(0), (node.inputs[3], order), names[1:2]),
    ]
    if node.has(1):
        layers.append(node.layer(Gather(0), (node.inputs[4], node.inputs[1]), names[2:]))
    else:
        names.pop()
    total = node.outputs[2] if len(node.outputs) > 2 and node.outputs[2] else node.tensor("sum")
    program = "add(x0,x1);add(t0,x2)" if node.has(1) else "add(x0,x1)"
    layers.append(node.layer(Pointwise(program), names, (total,)))
    if any(node.outputs[1:2]):
        counted = node.tensor("counted")
        ones = ("abs(x0)", node.inputs[7]) if node.has(7) else ("mul(x0,0.0)", node.inputs[0])
        layers.append(node.layer(Pointwise(ones[0]), ones[1:], (counted,)))
        layers.append(node.layer(Reduce("sum", (1,), keepdims=False), (counted,), node.outputs[1:2]))
    return (*layers, *_normalised(node, total, node.inputs[5], node.inputs[6], mean=True))


def _attention(node: Node) -> tuple[Layer, ...] | None:
    """Self-attention of x (n, steps, c) with weights (c, 3 * units) and a bias of q, k and v, in heads.

    A mask (n, steps) of 0 and 1 adds ``mask_filter_value`` where it is 0; `attention_bias` broadcasts to (n, heads, steps,
    steps).
    """
    weights, heads = node.shape(1), int(node.get("num_heads", 0))
    plain = not (any(node.outputs[1:]) or node.has(4) or node.has(6) or node.get("do_rotary", 0) or node.get("unidirectional", 0))
    if not plain or heads < 1 or weights is None or weights[1] is None or (node.has(3) and node.rank(3) != 2):
        return None
    sizes = node.ints("qkv_hidden_sizes") or (weights[1] // 3,) * 3
    scale = float(node.get("scale", 0.0)) or (sizes[0] // heads) ** -0.5
    product, parts = node.tensor("product"), [node.tensor(what) for what in "qkv"]
    layers = [
        node.layer(MatMul(bias=node.has(2)), tuple(n for n in node.inputs[:3] if n), (product,)),
        node.layer(Split(2, sizes, 3), (product,), parts),
    ]
    split = []
    for part, size in zip(parts, sizes, strict=True):
        shape = node.add_constant("heads", np.array([0, 0, heads, size // heads], np.int64))
        apart, by_head = node.tensor("apart"), node.tensor("by_head")
        layers.append(node.layer(Reshape(), (part, shape), (apart,)))
        layers.append(node.layer(Transpose((0, 2, 1, 3)), (apart,), (by_head,)))
        split.append(by_head)
    scores, masked, weighted = node.tensor("scores"), node.tensor("masked"), node.tensor("weighted")
    layers.append(node.layer(MatMul(transpose_b=True), split[:2], (scores,)))
    layers += _masked(node, scores, scale, masked)
    attended, joined = node.tensor("attended"), node.tensor("joined")
    flat = node.add_constant("flat", np.array([0, 0, sizes[2]], np.int64))
    return (
        *layers,
        node.layer(Softmax(-1), (masked,), (weighted,)),
        node.layer(MatMul(), (weighted, split[2]), (attended,)),
        node.layer(Transpose((0, 2, 1, 3)), (attended,), (joined,)),
        node.layer(Reshape(), (joined, flat)),
    )


def _masked(node: Node, scores: str, scale: float, result: str) -> list[Layer]:
    """Scaled scores with what the mask and the bias add."""
    layers, inputs, program = [], [scores], [f"mul(x0,{scale!r})"]
    if node.has(3):
        mask, lifted = node.tensor("mask"), node.tensor("lifted")
        value = float(node.get("mask_filter_value", -10000.0))
        layers.append(node.layer(Pointwise(f"cast_f32(x0);sub(1.0,t0);mul(t1,{value!r})"), (node.inputs[3],), (mask,)))
        layers.append(node.layer(Unsqueeze((1, 2)), (mask,), (lifted,)))
        inputs.append(lifted)
    if node.has(5):
        inputs.append(node.inputs[5])
    program += [f"add(t{i - 1},x{i})" for i in range(1, len(inputs))]
    return [*layers, node.layer(Pointwise(";".join(program)), inputs, (result,))]


def _nhwc_max_pool(node: Node) -> tuple[Layer, ...] | None:
    """A maximum pooling of (n, *spatial, c), of 8-bit integers too."""
    kernel, rank = node.ints("kernel_shape"), node.rank(0)
    if not kernel or rank is None:
        return None
    windows = windows_of(node, kernel)
    if windows.pads is None:
        return None
    pool = Pool("max", kernel, windows.strides, windows.pads, windows.dilations, bool(node.get("ceil_mode", 0)))
    to_first, to_last = Transpose((0, rank - 1, *range(1, rank - 1))), Transpose((0, *range(2, rank), 1))
    return node.chain(node.inputs[0], to_first, pool, to_last)


MICROSOFT: Converters = {
    "Attention": _attention,
    "EmbedLayerNormalization": _embed_norm,
    "NhwcMaxPool": _nhwc_max_pool,
    "SkipLayerNormalization": _skip_norm(mean=True),
    "SkipSimplifiedLayerNormalization": _skip_norm(mean=False),
}
SIMPLIFIED: Converters = {"SimplifiedLayerNormalization": _simplified_norm}
"""onnxruntime has this one in ONNX's own domain."""
