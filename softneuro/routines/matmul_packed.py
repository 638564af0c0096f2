"""Matrix product with constant right side: panels of b packed once, register tiles of rows by columns."""

from __future__ import annotations

from typing import cast

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


def packed_kernel(problem: Problem, mr: int, nv: int) -> KernelSpec:
    """The kernel for tiles of mr rows by nv vectors."""
    return KernelSpec.of("matmul_packed", mr=mr, nv=nv, epilogue=str(cast(MatMul, problem.op).epilogue))


def packed_product(problem: Problem, mr: int, nv: int, copy: bool, target: Target) -> Built:
    """The product with b packed in panels of nv vectors; ``copy`` as in `rows_of`."""
    product = product_of(problem)
    rows = rows_of(problem, product, copy)
    words = (
        rows.word, target_of(0), packed(0), packed(1), table(0), table(1), residual_word(problem),
        product.batches, product.m, product.k, product.n, rows.row_bytes,
    )  # fmt: skip
    tables = (
        row_offsets(product.m, mr, rows.row_bytes),
        batch_table(product, rows.matrix_bytes, panel_bytes(product, nv * target.f32_lanes)),
    )
    launch = Launch(packed_kernel(problem, mr, nv), words)
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
