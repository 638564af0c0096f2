"""Reductions, ArgMax, ArgMin, Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from softneuro.graph import Layer
from softneuro.importer.fallback import reference_op
from softneuro.importer.node import Converter, Converters, Node
from softneuro.ops.base import Op
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.reduce import ArgReduce, Reduce
from softneuro.ops.shape import Shape
from softneuro.ops.softmax import Softmax
from softneuro.ops.view import Flatten, Reshape
from softneuro.types import DType

__all__ = ["CONVERTERS"]

_KINDS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceSumSquare": "sum_square",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}


def _reduce(node: Node) -> tuple[Layer, ...]:
    """Axes are an attribute up to opset 17 (12 for ReduceSum), then an input; constant ones go into the op."""
    axes, constant = node.ints("axes"), node.constant(1)
    if constant is not None:
        axes = tuple(int(axis) for axis in constant.reshape(-1))
    inputs = node.inputs if node.has(1) and constant is None else node.inputs[:1]
    noop, keepdims = bool(node.get("noop_with_empty_axes", 0)), bool(node.get("keepdims", 1))
    if node.op_type == "ReduceLogSumExp" and node.dtype(0) is DType.F32 and not noop:
        return _log_sum_exp(node, axes, inputs[1:], keepdims)
    return (node.layer(Reduce(_KINDS[node.op_type], axes, keepdims, noop), inputs),)


_SHIFT = "sub(x1,x1);equal(t0,0.0);where(t1,x1,0.0)"  # the largest element where it is finite, else 0


def _log_sum_exp(node: Node, axes: tuple[int, ...] | None, given: Sequence[str], keepdims: bool) -> tuple[Layer, ...]:
    """log(sum(exp(x - shift))) + shift, so that nothing overflows. given: the axes' tensor, if they are one."""
    peak, powers, logs, shifted = map(node.tensor, ("peak", "powers", "logs", "shifted"))
    x = node.inputs[0]
    layers = (
        node.layer(Reduce("max", axes), (x, *given), (peak,)),
        node.layer(Pointwise(f"{_SHIFT};sub(x0,t2);exp(t3)"), (x, peak), (powers,)),
        node.layer(Reduce("log_sum", axes), (powers, *given), (logs,)),
        node.layer(Pointwise(f"{_SHIFT};add(x0,t2)"), (logs, peak), node.outputs if keepdims else (shifted,)),
    )
    return layers if keepdims else (*layers, node.layer(Reduce("max", axes, keepdims=False), (shifted, *given)))


def _arg_reduce(kind: Literal["max", "min"]) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...]:
        op = ArgReduce(kind, int(node.get("axis", 0)), bool(node.get("keepdims", 1)), bool(node.get("select_last_index", 0)))
        return (node.layer(op),)

    return convert


def _softmax(log: bool) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...]:
        return _over_axis(node, lambda axis: Softmax(axis, log))

    return convert


def _hardmax(node: Node) -> tuple[Layer, ...]:
    return _over_axis(node, lambda axis: reference_op("Hardmax", 13, axis=axis))


def _over_axis(node: Node, op: Callable[[int], Op]) -> tuple[Layer, ...]:
    """An op along one axis. Up to opset 12 all axes from ``axis`` on are one: in a matrix, if it is not the last."""
    if node.opset >= 13:
        return (node.layer(op(int(node.get("axis", -1)))),)
    axis, rank = int(node.get("axis", 1)), node.rank(0)
    if axis == -1 or (rank is not None and axis == rank - 1):
        return (node.layer(op(-1)),)
    matrix, rows, shape = node.tensor("matrix"), node.tensor("rows"), node.tensor("shape")
    return (
        node.layer(Flatten(axis), node.inputs, (matrix,)),
        node.layer(op(-1), (matrix,), (rows,)),
        node.layer(Shape(), node.inputs, (shape,)),
        node.layer(Reshape(allowzero=True), (rows, shape)),
    )


CONVERTERS: Converters = {
    **dict.fromkeys(_KINDS, _reduce),
    "ArgMax": _arg_reduce("max"),
    "ArgMin": _arg_reduce("min"),
    "Hardmax": _hardmax,
    "Softmax": _softmax(log=False),
    "LogSoftmax": _softmax(log=True),
}
