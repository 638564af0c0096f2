"""Matrix products of float64 and integers, straight from the operands as they lie."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.epilogue import NO_EPILOGUE
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.matmul_shapes import batch_table, product_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of
from softneuro.types import DType

__all__ = ["MATMUL_PLAIN_ANY"]

_DTYPES = (DType.F64, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64)


def _reject(problem: Problem, target: Target) -> str | None:
    op, b = cast(MatMul, problem.op), problem.input(1)
    if b.dtype not in _DTYPES:
        return f"found {b.dtype} operands, needed one of {', '.join(_DTYPES)}"
    if op.epilogue != NO_EPILOGUE:
        return f"found the epilogue {op.epilogue}, needed none"
    if op.transpose_a and _is_turned(problem):
        return "found both sides transposed, needed at most one of them"
    return None


def _is_turned(problem: Problem) -> bool:
    """Whether the right side is stored transposed."""
    return cast(MatMul, problem.op).transpose_b and problem.input(1).rank >= 2


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, product, size = cast(MatMul, problem.op), product_of(problem), problem.input(1).dtype.itemsize
    turned = op.transpose_a and problem.input(0).rank >= 2
    strides = (size, product.m * size) if turned else (product.k * size, size)
    words = (source(0), source(1), target_of(0), product.batches, product.m, product.k, product.n, table(0), *strides,
             source(2) if op.bias else 0)  # fmt: skip
    kernel = KernelSpec.of("matmul_plain", dtype=problem.input(1).dtype.value, transpose=_is_turned(problem))
    tables = (batch_table(product, size * product.m * product.k, size * product.k * product.n),)
    return Built(launches=(Launch(kernel, words),), tables=tables)


MATMUL_PLAIN_ANY = Routine(
    name="matmul.plain.any.chf",
    op=MatMul,
    reject=_reject,
    signatures=_signatures,
    build=_build,
    tolerance=8.0,
)
