"""Matrix product of operands that are both computed at run time, with batches and transposes (attention)."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.linear import residual_word
from softneuro.routines.matmul_rows import rows_of, with_copies
from softneuro.routines.matmul_shapes import (
    batch_table,
    product_of,
    refusal,
    row_offsets,
    tile_schedules,
)
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, scratch, source, table, target_of
from softneuro.routines.sizes import round_up

__all__ = ["MATMUL_BATCHED_F32_CHF"]


def _reject(problem: Problem, target: Target) -> str | None:
    return refusal(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    product = product_of(problem)
    return with_copies(problem, product, tile_schedules(product, target))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(MatMul, problem.op)
    product = product_of(problem)
    mr, nv = schedule["mr"], schedule["nv"]
    rows = rows_of(problem, product, bool(schedule["copy"]))
    slot = round_up(4 * (product.k + 1) * nv * target.f32_lanes, CACHE_LINE)
    words = (
        rows.word, target_of(0), source(1), source(2) if op.bias else 0, table(0), table(1), residual_word(problem),
        product.batches, product.m, product.k, product.n, rows.row_bytes, scratch(rows.scratch), problem.threads, slot,
    )  # fmt: skip
    transpose = op.transpose_b and problem.input(1).rank >= 2
    kernel = KernelSpec.of("matmul_batched", mr=mr, nv=nv, transpose=transpose, epilogue=str(op.epilogue))
    tables = (
        row_offsets(product.m, mr, rows.row_bytes),
        batch_table(product, rows.matrix_bytes, 4 * product.k * product.n),
    )
    return Built(launches=(*rows.launches, Launch(kernel, words)), tables=tables,
                 scratch=rows.scratch + problem.threads * slot)


MATMUL_BATCHED_F32_CHF = Routine(
    name="matmul.batched.f32.chf",
    op=MatMul,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    build=_build,
)
