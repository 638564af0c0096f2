"""Operators between quantised tensors: each is its float32 form between a dequantisation and a quantisation.

Sums of products that integer arithmetic makes exactly are rounded to float32, which is far finer than the step of the
result: single results differ by one step where the exact one lies next to the middle between two.
"""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.importer.quantised import CONVERTERS as QUANTISE
from softneuro.importer.quantised import affine_of, dequantised, pointwise_between, quantised
from softneuro.importer.windows import windows_of
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.ops.same_padding import SameConv, SamePool
from softneuro.ops.slicing import Concat
from softneuro.ops.softmax import Softmax

__all__ = ["CONVERTERS", "MICROSOFT"]


def _pointwise(program: str, count: int) -> Converter:
    """``count`` quantised operands (tensor, scale, zero each), then the result's scale and zero."""

    def convert(node: Node) -> tuple[Layer, ...]:
        operands = [(node.inputs[i], affine_of(node, i + 1, i + 2)) for i in range(0, 3 * count, 3)]
        return pointwise_between(node, program, operands, affine_of(node, 3 * count, 3 * count + 1))

    return convert


def _leaky_relu(node: Node) -> tuple[Layer, ...]:
    return _pointwise(f"leaky_relu(x0,{float(node.get('alpha', 0.01))!r})", 1)(node) or ()


def _where(node: Node) -> tuple[Layer, ...]:
    operands = [(node.inputs[i], affine_of(node, i + 1, i + 2)) for i in (1, 4)]
    return pointwise_between(node, "where(x0,x1,x2)", [(node.inputs[0], None), *operands], affine_of(node, 7, 8))


def _between(node: Node, *ops: Op) -> tuple[Layer, ...]:
    """Ops of one input and output between x (inputs 0 to 2) and the result (inputs 3 and 4)."""
    layers, source = dequantised(node, node.inputs[0], affine_of(node, 1, 2))
    made = list(layers)
    for op in ops:
        target = node.tensor(op.name)
        made.append(node.layer(op, (source,), (target,)))
        source = target
    return (*made, *quantised(node, source, affine_of(node, 3, 4)))


def _channels_moved(node: Node, first: int, *ops: Op) -> tuple[Op, ...]:
    """The ops, or with ``channels_last`` the ops between transpositions. first: the input with the tensor's rank."""
    if not node.get("channels_last", 0):
        return ops
    rank = node.rank(first)
    if rank is None:
        raise node.unsupported("the rank of its input is not known, needed it to move the channels")
    to_first = Transpose((0, rank - 1, *range(1, rank - 1)))
    return (to_first, *ops, Transpose((0, *range(2, rank), 1)))


def _global_average(node: Node) -> tuple[Layer, ...]:
    return _between(node, *_channels_moved(node, 0, GlobalPool("average")))


def _average_pool(node: Node) -> tuple[Layer, ...] | None:
    kernel = node.ints("kernel_shape")
    if not kernel or node.get("channels_last", 0):
        return None
    windows, inside = windows_of(node, kernel), bool(node.get("count_include_pad", 0))
    if windows.pads is None:
        return _between(node, SamePool("average", kernel, windows.strides, windows.dilations, inside, windows.upper))
    ceil_mode = bool(node.get("ceil_mode", 0))
    return _between(node, Pool("average", kernel, windows.strides, windows.pads, windows.dilations, ceil_mode, inside))


def _softmax(node: Node) -> tuple[Layer, ...] | None:
    """Since opset 13 along one axis; before, over all axes from it on, which is the same for the last one."""
    axis, rank = int(node.get("axis", -1)), node.rank(0)
    last = axis == -1 or (rank is not None and axis == rank - 1)
    return _between(node, Softmax(axis)) if last or int(node.get("opset", 13)) >= 13 else None


def _concat(node: Node) -> tuple[Layer, ...]:
    """The result's scale and zero, then tensor, scale and zero of each part."""
    layers: list[Layer] = []
    parts = []
    for position in range(2, len(node.inputs), 3):
        made, part = dequantised(node, node.inputs[position], affine_of(node, position + 1, position + 2))
        layers += made
        parts.append(part)
    whole = node.tensor("whole")
    layers.append(node.layer(Concat(int(node.get("axis", 0))), parts, (whole,)))
    return (*layers, *quantised(node, whole, affine_of(node, 0, 1)))


def _real_bias(node: Node, position: int, scales: Sequence[str]) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """An optional int32 bias, whose scale is the product of two."""
    if not node.has(position):
        return (), ()
    bias = node.tensor("bias")
    return (node.layer(Pointwise("mul(x1,x2);cast_f32(x0);mul(t1,t0)"), (node.inputs[position], *scales), (bias,)),), (bias,)


def _conv(node: Node) -> tuple[Layer, ...] | None:
    """x, w and y with scale and zero each, bias. Weights have one scale, or one for each filter."""
    shape = node.shape(3)
    if shape is None or None in shape[2:]:
        return None
    kernel, rank = tuple(size for size in shape[2:] if size is not None), len(shape)
    windows, groups = windows_of(node, kernel), int(node.get("group", 1))
    x, w, y = affine_of(node, 1, 2), affine_of(node, 4, 5, trailing=rank - 1), affine_of(node, 6, 7)
    x_layers, x_real = dequantised(node, node.inputs[0], x)
    w_layers, w_real = dequantised(node, node.inputs[3], w)
    flat = affine_of(node, 4, 5)
    bias_layers, bias = _real_bias(node, 8, (x.scale, flat.scale))
    op: Op
    if windows.pads is None:
        op = SameConv(windows.strides, windows.dilations, groups, bool(bias), windows.upper)
    else:
        op = Conv(windows.strides, windows.pads, windows.dilations, groups, bool(bias))
    layers = [*x_layers, *w_layers, *(flat.layers if bias else ()), *bias_layers]
    moved = _channels_moved(node, 0, op)
    source = x_real
    for step in moved:
        target = node.tensor(step.name)
        layers.append(node.layer(step, (source, w_real, *bias) if step is op else (source,), (target,)))
        source = target
    return (*layers, *quantised(node, source, y))


def _matmul(node: Node) -> tuple[Layer, ...]:
    """Scales of rows of a (m, k) and columns of b (k, n) may be vectors."""
    rows = 1 if node.rank(1) == 1 and node.shape(1) != (1,) else 0
    a_layers, a = dequantised(node, node.inputs[0], affine_of(node, 1, 2, trailing=rows))
    b_layers, b = dequantised(node, node.inputs[3], affine_of(node, 4, 5))
    product = node.tensor("product")
    return (*a_layers, *b_layers, node.layer(MatMul(), (a, b), (product,)), *quantised(node, product, affine_of(node, 6, 7)))


def _gemm(node: Node) -> tuple[Layer, ...]:
    """alpha * (a b + c): c has the product of the scales of a and b; without a scale, the result stays float32."""
    transposes, alpha = (bool(node.get("transA", 0)), bool(node.get("transB", 0))), float(node.get("alpha", 1.0))
    a_affine = affine_of(node, 1, 2)
    b_affine = affine_of(node, 4, 5, trailing=1 if transposes[1] else 0)
    a_layers, a = dequantised(node, node.inputs[0], a_affine)
    b_layers, b = dequantised(node, node.inputs[3], b_affine)
    flat = affine_of(node, 4, 5)
    bias_layers, bias = _real_bias(node, 6, (a_affine.scale, flat.scale))
    real = node.tensor("real") if node.has(7) else node.outputs[0]
    product = node.tensor("product") if bias or alpha != 1.0 else real
    layers = [*a_layers, *b_layers, *(flat.layers if bias else ()), *bias_layers]
    layers.append(node.layer(MatMul(*transposes), (a, b), (product,)))
    if product != real:
        program = ";".join([*(["add(x0,x1)"] if bias else []), f"mul({'t0' if bias else 'x0'},{alpha!r})"])
        layers.append(node.layer(Pointwise(program if alpha != 1.0 else "add(x0,x1)"), (product, *bias), (real,)))
    return (*layers, *quantised(node, real, affine_of(node, 7, 8))) if node.has(7) else tuple(layers)


CONVERTERS: Converters = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
MICROSOFT: Converters = {
    **QUANTISE,
    "QGemm": _gemm,
    "QLinearAdd": _pointwise("add(x0,x1)", 2),
    "QLinearAveragePool": _average_pool,
    "QLinearConcat": _concat,
    "QLinearConv": _conv,
    "QLinearGlobalAveragePool": _global_average,
    "QLinearLeakyRelu": _leaky_relu,
    "QLinearMatMul": _matmul,
    "QLinearMul": _pointwise("mul(x0,x1)", 2),
    "QLinearSigmoid": _pointwise("sigmoid(x0)", 1),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
}
