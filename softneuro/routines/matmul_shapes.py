"""A matrix product with all its shapes made plain: what every matmul routine builds from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.routine import Address, Schedule, Signature, source
from softneuro.types import Array, DType, Format, Shape

__all__ = ["Product", "batch_table", "constant_refusal", "constant_signatures", "format_of", "packed_panels",
           "panel_bytes", "product_of", "refusal", "residual_word", "row_offsets", "tile_schedules"]


@dataclass(frozen=True)
class Product:
    """``batches`` products of m by k with k by n.

    a_index, b_index: for every output batch, which matrix of a and of b it multiplies; a_count, b_count: how
    many matrices a and b hold.
    """

    m: int
    n: int
    k: int
    a_count: int
    b_count: int
    a_index: Array
    b_index: Array

    @property
    def batches(self) -> int:
        """How many products there are."""
        return len(self.a_index)


def _stack(shape: Shape, transpose: bool, *, column: bool) -> tuple[Shape, int, int]:
    """An operand as (leading axes, rows, columns) of its untransposed matrices."""
    if len(shape) == 1:
        return (), *((shape[0], 1) if column else (1, shape[0]))
    rows, columns = shape[-2:]
    return shape[:-2], *((columns, rows) if transpose else (rows, columns))


def product_of(problem: Problem) -> Product:
    """The product of a problem of MatMul. Rows of all of a's matrices are one matrix when b is a single one."""
    op = cast(MatMul, problem.op)
    a_lead, m, k = _stack(problem.input(0).shape, op.transpose_a, column=False)
    b_lead, _, n = _stack(problem.input(1).shape, op.transpose_b, column=True)
    a_count, b_count = math.prod(a_lead), math.prod(b_lead)
    if b_count == 1 and not op.transpose_a:
        one = np.zeros(1, np.int64)
        return Product(a_count * m, n, k, 1, 1, one, one)
    batch = np.broadcast_shapes(a_lead, b_lead)
    a_index, b_index = (
        np.broadcast_to(np.arange(count, dtype=np.int64).reshape(lead), batch).reshape(-1)
        for count, lead in ((a_count, a_lead), (b_count, b_lead))
    )
    return Product(m, n, k, a_count, b_count, a_index, b_index)


def refusal(problem: Problem) -> str | None:
    """Why no matmul routine in float32 computes this, or None."""
    op = cast(MatMul, problem.op)
    a, b, y = problem.input(0), problem.input(1), problem.outputs[0]
    if a.dtype is not DType.F32:
        return f"found {a.dtype} input, needed f32"
    if 0 in (a.size, b.size):
        return f"found operands of shapes {a.shape} and {b.shape}, needed at least one element"
    if op.epilogue.residual and problem.input(len(problem.inputs) - 1).size != y.size:
        return f"found a residual of {problem.inputs[-1]}, needed the {y.size} elements of {y}"
    return None


def constant_refusal(problem: Problem, target: Target) -> str | None:
    """Why no float32 routine that packs b (and bias) before the run computes this, or None."""
    if not problem.constant[1] or (cast(MatMul, problem.op).bias and not problem.constant[2]):
        return "found a right side or bias that is computed at run time, needed constants"
    return refusal(problem)


def format_of(problem: Problem, index: int) -> Format:
    """The row-major format of an input."""
    return Format.row_major(problem.input(index))


def constant_signatures(problem: Problem) -> tuple[Signature, ...]:
    """Row-major in and out, with b and bias taken by the packing."""
    inputs: list[Format | None] = [format_of(problem, 0)] + [None] * (len(problem.inputs) - 1)
    if cast(MatMul, problem.op).epilogue.residual:
        inputs[-1] = format_of(problem, len(inputs) - 1)
    return (Signature(tuple(inputs), (Format.row_major(problem.outputs[0]),)),)


def residual_word(problem: Problem) -> Address | int:
    """The address of the residual, or 0 without one."""
    return source(len(problem.inputs) - 1) if cast(MatMul, problem.op).epilogue.residual else 0


def balanced(total: int, most: int) -> int:
    """The least tile size that needs no more tiles than size ``most`` does: the last tile is nearly full."""
    return math.ceil(total / math.ceil(total / most))


def tile_schedules(m: int, n: int, target: Target) -> tuple[Schedule, ...]:
    """Register tiles of mr rows by nv vectors, the best first guess first."""
    vectors = math.ceil(n / target.f32_lanes)
    found: dict[tuple[int, int], Schedule] = {}
    for nv in (2, 3, 4, 1):
        most = (target.registers - nv - 1) // nv
        if nv <= vectors and most >= 1:
            mr = balanced(m, most)
            found.setdefault((mr, nv), {"mr": mr, "nv": nv})
    return tuple(found.values())


def matrices_of(problem: Problem, values: Sequence[Array | None]) -> Array:
    """The constant b as (count, k, n), a view."""
    b = values[1]
    assert b is not None
    if b.ndim == 1:
        return b.reshape(1, -1, 1)
    matrices = b.reshape(-1, *b.shape[-2:])
    return matrices.transpose(0, 2, 1) if cast(MatMul, problem.op).transpose_b else matrices


def packed_panels(problem: Problem, schedule: Schedule, target: Target,
                  values: Sequence[Array | None]) -> tuple[Array, ...]:
    """b and bias (zeros without one) in panels of the schedule's ``nv`` vectors: a routine's ``pack``."""
    width = schedule["nv"] * target.f32_lanes
    b = matrices_of(problem, values)
    bias = values[2] if cast(MatMul, problem.op).bias else np.zeros(b.shape[2], np.float32)
    assert bias is not None
    return panels_of(b, width), panels_of(bias.reshape(1, 1, -1), width)


def panel_bytes(product: Product, width: int) -> int:
    """Bytes of one packed matrix of b."""
    return math.ceil(product.n / width) * width * product.k * 4


def panels_of(b: Array, width: int) -> Array:
    """Matrices (count, k, n) as [count][panel][k][width] float32, the last panel filled with zeros."""
    count, k, n = b.shape
    panels = math.ceil(n / width)
    result = np.zeros((count, panels, k, width), np.float32)
    for panel in range(panels):
        part = b[:, :, panel * width : (panel + 1) * width]
        result[:, panel, :, : part.shape[2]] = part
    return result


def row_offsets(m: int, mr: int, row_bytes: int) -> Array:
    """int32 [2][mr]: byte offsets of the rows of a full tile, then of the last tile, which repeats its last row."""
    rows = np.arange(mr)
    last = m - (math.ceil(m / mr) - 1) * mr
    return np.stack([rows, np.minimum(rows, last - 1)]).astype(np.int32) * np.int32(row_bytes)


def batch_table(product: Product, a_bytes: int, b_bytes: int) -> Array:
    """int64 [batch][2]: byte offsets of each output batch's matrix of a and of b."""
    return np.stack([product.a_index * a_bytes, product.b_index * b_bytes], axis=1)
