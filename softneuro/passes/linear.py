"""The layers that have weights, a bias and an epilogue."""

from __future__ import annotations

from dataclasses import replace

from softneuro.graph import Layer
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.passes.rewrite import Draft

__all__ = ["LinearOp", "linear_op", "with_epilogue"]

LinearOp = Conv | ConvTranspose | MatMul


def linear_op(draft: Draft, tensor: str) -> LinearOp | None:
    """The op that makes the tensor, when it is one of these."""
    layer = draft.producer(tensor)
    return layer.op if layer is not None and isinstance(layer.op, (Conv, ConvTranspose, MatMul)) else None


def with_epilogue(
    layer: Layer, op: LinearOp, epilogue: Epilogue, outputs: tuple[str, ...], residual: str = ""
) -> Layer:
    """The layer with another epilogue and other outputs, and with a residual after its other inputs."""
    operands = layer.inputs[: 2 + op.bias + bool(op.epilogue.residual)]
    inputs = (*operands, residual) if residual else operands
    return Layer(layer.name, replace(op, epilogue=epilogue), inputs, outputs)
