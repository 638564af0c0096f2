"""Matrix product with constant right side: panels of b packed once, register tiles of rows by columns."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.operands import Operands
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.linear import residual_word
from softneuro.routines.matmul_rows import rows_of, with_copies
from softneuro.routines.matmul_shapes import (
    batch_table,
    constant_refusal,
    constant_signatures,
    packed_panels,
    panel_bytes,
    product_of,
    row_offsets,
    tile_schedules,
)
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, table, target_of

__all__ = ["MATMUL_PACKED_F32_PLAIN", "packed_kernel", "packed_product"]


def packed_kernel(problem: Problem, mr: int, nv: int, **types: str | bool) -> KernelSpec:
    """The kernel for tiles of mr rows by nv vectors; ``types`` as the kernel has them."""
    return KernelSpec.of("matmul_packed", mr=mr, nv=nv, epilogue=str(cast(MatMul, problem.op).epilogue), **types)


def packed_product(problem: Problem, mr: int, nv: int, copy: bool, target: Target, operands: Operands | None = None,
                   **types: str | bool) -> Built:
    """The product with b packed in panels of nv vectors; ``copy`` as in `rows_of`.

    operands: what a and b are kept as, None for float32. types: as the kernel has them.
    """
    product, sides = product_of(problem), operands or Operands(target)
    steps = sides.steps(product.k)
    rows = rows_of(problem, product, copy, sides.element_bytes)
    words = (
        rows.word, target_of(0), packed(0), packed(1), table(0), table(1), residual_word(problem),
        product.batches, product.m, steps, product.n, rows.row_bytes,
    )  # fmt: skip
    b_bytes = panel_bytes(product, nv * target.f32_lanes, steps, sides.weight_bytes)
    tables = (
        row_offsets(product.m, mr, rows.row_bytes),
        batch_table(product, rows.matrix_bytes, b_bytes),
    )
    launch = Launch(packed_kernel(problem, mr, nv, **types), words)
    return Built(launches=(*rows.launches, launch), tables=tables, scratch=rows.scratch)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    product = product_of(problem)
    return with_copies(problem, product, tile_schedules(product, target))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return packed_product(problem, schedule["mr"], schedule["nv"], bool(schedule["copy"]), target)


MATMUL_PACKED_F32_PLAIN = Routine(
    name="matmul.packed.f32.plain",
    op=MatMul,
    reject=constant_refusal,
    signatures=constant_signatures,
    schedules=_schedules,
    pack=packed_panels,
    build=_build,
    packs=(1, 2),
)
