"""Operators that find the scale of a tensor in the run: its range, 0 included, is divided into 255 steps."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.importer.recurrent import recurrent_op
from softneuro.ops.integer import IntegerMatMul, QuantisedStateLstm
from softneuro.ops.matmul import MatMul
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.reduce import Reduce
from softneuro.types import Array, DType

__all__ = ["CONVERTERS", "MICROSOFT"]

_SCALE = "max(x1,0.0);min(x0,0.0);sub(t0,t1);div(t2,255.0);equal(t2,0.0);where(t4,1.0,t3)"
_ZERO = "min(x0,0.0);neg(t0);div(t1,x1);clip(t2,0.0,255.0);round(t3)"
_STEPS = "div(x0,x1);round(t0);add(t1,x2);clip(t2,0.0,255.0)"


def _range(node: Node, source: str, scale: str, zero: str) -> tuple[Layer, ...]:
    """The layers that make the scale and the zero point, as float32 scalars."""
    low, high = node.tensor("low"), node.tensor("high")
    return (
        node.layer(Reduce("min", None, keepdims=False), (source,), (low,)),
        node.layer(Reduce("max", None, keepdims=False), (source,), (high,)),
        node.layer(Pointwise(_SCALE), (low, high), (scale,)),
        node.layer(Pointwise(_ZERO), (low, scale), (zero,)),
    )


def _quantize(node: Node) -> tuple[Layer, ...]:
    """y, its scale, its zero point."""
    y, scale, zero = (*node.outputs, *(node.tensor("unread") for _ in range(3 - len(node.outputs))))
    scale, zero, real_zero = scale or node.tensor("scale"), zero or node.tensor("zero"), node.tensor("real_zero")
    return (
        *_range(node, node.inputs[0], scale, real_zero),
        node.layer(Pointwise("cast_u8(x0)"), (real_zero,), (zero,)),
        node.layer(Pointwise(f"{_STEPS};cast_u8(t3)"), (node.inputs[0], scale, real_zero), (y or node.tensor("y"),)),
    )


def _rounded(node: Node, source: str) -> tuple[tuple[Layer, ...], str]:
    """A tensor rounded to 255 steps, as real numbers."""
    scale, zero, rounded = node.tensor("scale"), node.tensor("zero"), node.tensor("rounded")
    layer = node.layer(Pointwise(f"{_STEPS};sub(t3,x2);mul(t4,x1)"), (source, scale, zero), (rounded,))
    return (*_range(node, source, scale, zero), layer), rounded


def _matmul_integer(node: Node) -> tuple[Layer, ...] | None:
    if node.rank(2) not in (None, 0, 1) or node.rank(3) not in (None, 0, 1):
        return None
    return (node.layer(IntegerMatMul()),)


def _real_weights(node: Node, position: int, scale: int, zero: int) -> tuple[Layer, str]:
    """The real numbers of stored weights with one scale or one for each column."""
    real, has_zero = node.tensor("real"), node.has(zero)
    program = "cast_f32(x0);cast_f32(x2);sub(t0,t1);mul(t2,x1)" if has_zero else "cast_f32(x0);mul(t0,x1)"
    inputs = (node.inputs[position], node.inputs[scale], *([node.inputs[zero]] if has_zero else []))
    return node.layer(Pointwise(program), inputs, (real,)), real


def _dynamic_matmul(node: Node) -> tuple[Layer, ...]:
    """a rounded to 255 steps, times b with scale (2) and zero point (3), plus a bias (4)."""
    layers, a = _rounded(node, node.inputs[0])
    weights, b = _real_weights(node, 1, 2, 3)
    bias = node.inputs[4:5]
    return (*layers, weights, node.layer(MatMul(bias=bool(bias)), (a, b, *bias)))


def _matmul_to_float(node: Node) -> tuple[Layer, ...]:
    """a, b, their scales, their zero points, a bias."""
    left, a = _real_weights(node, 0, 2, 4)
    right, b = _real_weights(node, 1, 3, 5)
    bias = node.inputs[6:7]
    return left, right, node.layer(MatMul(bias=bool(bias)), (a, b, *bias))


def _lstm(node: Node) -> tuple[Layer, ...] | None:
    """Weights (directions, c, 4 * hidden) with scales (8, 10) and zero points (9, 11) of each direction, or column."""
    found = recurrent_op(node, "lstm")
    weights, recurrent = (_lstm_weights(node, *positions) for positions in ((1, 8, 9), (2, 10, 11)))
    if found is None or node.dtype(0) not in (DType.F32, DType.OTHER) or weights is None or recurrent is None:
        return None
    op = QuantisedStateLstm(**vars(found))
    layers, x = _rounded(node, node.inputs[0])
    w = node.add_constant("weights", weights[0].astype(np.float32) * weights[1][:, :, None])
    r, scales = node.add_constant("recurrent_weights", recurrent[0]), node.add_constant("scales", recurrent[1])
    optional = [*node.inputs[3:8], *[""] * (8 - len(node.inputs))][:5]
    return (*layers, node.layer(op, (x, w, r, *optional, scales)))


def _lstm_weights(node: Node, position: int, scale: int, zero: int) -> tuple[Array, Array] | None:
    """Whole numbers (directions, 4 * hidden, c), their zero points taken off, and scales (directions, 4 * hidden); None
    when they are computed in the run."""
    values = [node.constant(i) for i in (position, scale, zero)]
    if values[0] is None or values[1] is None or (node.has(zero) and values[2] is None):
        return None
    directions, _, columns = values[0].shape
    zeros = 0 if values[2] is None else values[2].astype(np.int16).reshape(directions, 1, -1)
    whole = (values[0].astype(np.int16) - zeros).transpose(0, 2, 1)
    small = np.iinfo(np.int8)
    dtype = np.int8 if small.min <= whole.min(initial=0) and whole.max(initial=0) <= small.max else np.int16
    scales = np.broadcast_to(values[1].astype(np.float32).reshape(directions, -1), (directions, columns))
    return np.ascontiguousarray(whole.astype(dtype)), np.ascontiguousarray(scales)


CONVERTERS: Converters = {"DynamicQuantizeLinear": _quantize, "MatMulInteger": _matmul_integer}
MICROSOFT: Converters = {
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
}
