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
from softneuro.routines.linear import (
    bias_of,
    has_constant_weights,
    packed_signature,
    panels_of,
    register_tiles,
    reject_operands,
    weights_of,
)
from softneuro.routines.routine import Schedule, Signature
from softneuro.routines.sizes import round_up
from softneuro.types import Array, Format, Shape

__all__ = ["Product", "batch_table", "constant_refusal", "constant_signatures", "format_of", "matrices_of", "packed_panels",
           "panel_bytes", "product_of", "refusal", "row_offsets", "tile_schedules"]

_MOST_TILE_ROWS = 32
"""No register tile has more rows, whose offsets are int32."""


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
    reason = reject_operands(problem)
    if reason is not None:
        return reason
    y, product = problem.outputs[0], product_of(problem)
    if cast(MatMul, problem.op).epilogue.residual and problem.input(len(problem.inputs) - 1).size != y.size:
        return f"found a residual of {problem.inputs[-1]}, needed the {y.size} elements of {y}"
    tile_bytes = 4 * product.k * min(product.m, _MOST_TILE_ROWS)
    if tile_bytes >= 2**30:
        return f"found {tile_bytes} bytes of rows in a tile, needed less than 2^30"
    return None


def constant_refusal(problem: Problem, target: Target) -> str | None:
    """Why no float32 routine that packs b (and bias) before the run computes this, or None."""
    if not has_constant_weights(problem):
        return "found a right side or bias that is computed at run time, needed constants"
    return refusal(problem)


def format_of(problem: Problem, index: int) -> Format:
    """The row-major format of an input."""
    return Format.row_major(problem.input(index))


def constant_signatures(problem: Problem) -> tuple[Signature, ...]:
    """Row-major in and out, with b and bias taken by the packing."""
    residual = format_of(problem, len(problem.inputs) - 1)
    return (packed_signature(problem, format_of(problem, 0), Format.row_major(problem.outputs[0]), residual),)


def tile_schedules(product: Product, target: Target) -> tuple[Schedule, ...]:
    """Register tiles of mr rows by nv vectors, the best first guess first."""
    return register_tiles(product.m, math.ceil(product.n / target.f32_lanes), target)


def matrices_of(problem: Problem, values: Sequence[Array | None]) -> Array:
    """The constant b as (count, k, n), a view."""
    b = weights_of(values)
    if b.ndim == 1:
        return b.reshape(1, -1, 1)
    matrices = b.reshape(-1, *b.shape[-2:])
    return matrices.transpose(0, 2, 1) if cast(MatMul, problem.op).transpose_b else matrices


def packed_panels(problem: Problem, schedule: Schedule, target: Target,
                  values: Sequence[Array | None]) -> tuple[Array, ...]:
    """b and bias (zeros without one) in panels of the schedule's ``nv`` vectors: a routine's ``pack``."""
    width = schedule["nv"] * target.f32_lanes
    b = matrices_of(problem, values)
    bias = bias_of(problem, values, b.shape[2])
    return panels_of(b, width), panels_of(bias.reshape(1, -1), width)


def panel_bytes(product: Product, width: int, steps: int, weight_bytes: int) -> int:
    """Bytes of one packed matrix of b, ``weight_bytes`` for each step of a column."""
    return round_up(product.n, width) * steps * weight_bytes


def row_offsets(m: int, mr: int, row_bytes: int) -> Array:
    """int32 [2][mr]: byte offsets of the rows of a full tile, then of the last tile, which repeats its last row."""
    rows = np.arange(mr)
    last = m - (math.ceil(m / mr) - 1) * mr
    return np.stack([rows, np.minimum(rows, last - 1)]).astype(np.int32) * np.int32(row_bytes)


def batch_table(product: Product, a_bytes: int, b_bytes: int) -> Array:
    """int64 [batch][2]: byte offsets of each output batch's matrix of a and of b."""
    return np.stack([product.a_index * a_bytes, product.b_index * b_bytes], axis=1)
