"""Conv, and onnxruntime's FusedConv."""

from __future__ import annotations

from typing import Literal

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.importer.windows import kernel_of, windows_of
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.same_padding import SameConv

__all__ = ["CONVERTERS", "MICROSOFT", "fused_epilogue"]

_FUSED = {
    "Relu": ("relu", 0),
    "Sigmoid": ("sigmoid", 0),
    "Tanh": ("tanh", 0),
    "LeakyRelu": ("leaky_relu", 1),
    "Clip": ("clip", 2),
    "HardSigmoid": ("hard_sigmoid", 2),
}


def fused_epilogue(node: Node, residual: Literal["", "before", "after"] = "") -> Epilogue | None:
    """The activation that onnxruntime's fused operators name; None when an epilogue has no such."""
    name = node.get("activation", "")
    if not name:
        return Epilogue(residual=residual)
    if name not in _FUSED:
        return None
    activation, count = _FUSED[name]
    parameters = node.get("activation_params")
    if parameters is None:
        parameters = [node.get("activation_alpha", 0.01), node.get("activation_beta", 0.0)][:count]
    return Epilogue(activation, tuple(float(p) for p in parameters[:count]), residual)


def _conv(node: Node) -> tuple[Layer, ...] | None:
    return _conv_with(node, NO_EPILOGUE)


def _conv_with(node: Node, epilogue: Epilogue) -> tuple[Layer, ...] | None:
    kernel = kernel_of(node)
    if kernel is None or not kernel:
        return None
    windows, groups, bias = windows_of(node, kernel), int(node.get("group", 1)), node.has(2)
    inputs = tuple(name for name in node.inputs[:4] if name)
    op: Op
    if windows.pads is not None:
        op = Conv(windows.strides, windows.pads, windows.dilations, groups, bias, epilogue)
    elif epilogue == NO_EPILOGUE:
        op = SameConv(windows.strides, windows.dilations, groups, bias, windows.upper)
    else:
        return None
    return (node.layer(op, inputs),)


def _fused_conv(node: Node) -> tuple[Layer, ...] | None:
    epilogue = fused_epilogue(node, "before" if node.has(3) else "")
    return None if epilogue is None else _conv_with(node, epilogue)


CONVERTERS: Converters = {"Conv": _conv}
MICROSOFT: Converters = {"FusedConv": _fused_conv}
