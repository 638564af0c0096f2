"""MatMul and Gemm, and onnxruntime's fused forms of them."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.conv import fused_epilogue
from softneuro.importer.node import Converters, Node
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.ops.pointwise import Pointwise

__all__ = ["CONVERTERS", "MICROSOFT"]


def _matmul(node: Node) -> tuple[Layer, ...]:
    return (node.layer(MatMul()),)


def _gemm(node: Node) -> tuple[Layer, ...] | None:
    return _gemm_with(node, NO_EPILOGUE)


def _gemm_with(node: Node, epilogue: Epilogue) -> tuple[Layer, ...] | None:
    """alpha * a b + beta * c: one MatMul if the factors fold into constants and c is a row, else with a Pointwise."""
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    if (alpha, beta) != (1.0, 1.0) and not node.dtype(0).is_float:
        return None
    transposes = bool(node.get("transA", 0)), bool(node.get("transB", 0))
    right, alpha = _scaled_weights(node, alpha)
    row = _bias_row(node, transposes[1], beta) if alpha == 1.0 and node.has(2) else None
    if row is not None:
        return (node.layer(MatMul(*transposes, True, epilogue), (node.inputs[0], right, row)),)
    if not node.has(2) and alpha == 1.0:
        return (node.layer(MatMul(*transposes, False, epilogue), (node.inputs[0], right)),)
    if epilogue != NO_EPILOGUE:
        return None
    product = node.tensor("product")
    program = _sum_program(alpha, beta if node.has(2) else None)
    return (
        node.layer(MatMul(*transposes), (node.inputs[0], right), (product,)),
        node.layer(Pointwise(program), (product, *node.inputs[2:3])),
    )


def _sum_program(alpha: float, beta: float | None) -> str:
    """alpha * x0 + beta * x1 with factors of 1 left out; without x1 when ``beta`` is None."""
    steps: list[str] = []

    def scaled(operand: str, factor: float) -> str:
        if factor == 1.0:
            return operand
        steps.append(f"mul({operand},{factor!r})")
        return f"t{len(steps) - 1}"

    left = scaled("x0", alpha)
    if beta is not None:
        right = scaled("x1", beta)
        steps.append(f"add({left},{right})")
    return ";".join(steps)


def _scaled_weights(node: Node, alpha: float) -> tuple[str, float]:
    """The right operand and what is left of alpha: constants take it."""
    weights = node.constant(1)
    if alpha == 1.0 or weights is None:
        return node.inputs[1], alpha
    return node.add_constant("weights", (weights * np.asarray(alpha, weights.dtype)).astype(weights.dtype)), 1.0


def _bias_row(node: Node, transposed: bool, beta: float) -> str | None:
    """The addend as a vector of one number per column, when it is one before any run; beta folded in."""
    weights, addend = node.shape(1), node.shape(2)
    columns = weights[-2 if transposed else -1] if weights is not None and len(weights) == 2 else None
    if columns is None or addend is None or addend not in ((columns,), (1, columns)):
        return None
    value = node.constant(2)
    if value is None:
        return node.inputs[2] if beta == 1.0 and len(addend) == 1 else None
    if beta == 1.0 and len(addend) == 1:
        return node.inputs[2]
    return node.add_constant("bias", (value.reshape(-1) * np.asarray(beta, value.dtype)).astype(value.dtype))


def _fused_gemm(node: Node) -> tuple[Layer, ...] | None:
    epilogue = fused_epilogue(node)
    return None if epilogue is None else _gemm_with(node, epilogue)


def _fused_matmul(node: Node) -> tuple[Layer, ...] | None:
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        return None
    alpha = float(node.get("alpha", 1.0))
    right, alpha = _scaled_weights(node, alpha)
    op = MatMul(bool(node.get("transA", 0)), bool(node.get("transB", 0)))
    if alpha == 1.0:
        return (node.layer(op, (node.inputs[0], right)),)
    product = node.tensor("product")
    return (
        node.layer(op, (node.inputs[0], right), (product,)),
        node.layer(Pointwise(f"mul(x0,{alpha!r})"), (product,)),
    )


CONVERTERS: Converters = {"MatMul": _matmul, "Gemm": _gemm}
MICROSOFT: Converters = {"FusedGemm": _fused_gemm, "FusedMatMul": _fused_matmul}
