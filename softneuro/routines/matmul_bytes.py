"""Matrix product of bytes with a constant right side: register tiles of rows by columns, or a few rows at memory's speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from softneuro.codegen.byte_panels import STEP, most_byte_rows, rest_of
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.byte_product import byte_signatures, byte_tiles, last_step, needs_bytes, packed_weights, reject_deep
from softneuro.routines.linear import residual_word
from softneuro.routines.matmul_shapes import batch_table, constant_refusal, format_of, matrices_of, product_of, row_offsets
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, table, target_of
from softneuro.types import Array, DType, Format

__all__ = ["MATMUL_PACKED_QINT8_PLAIN"]

_FEW_ROWS = 8
_STREAMS = ((4, 16), (4, 48), (2, 32), (1, 32))
"""(vectors of a panel, cache lines prefetched ahead) for so few rows that the panels come from memory."""


def _reject(problem: Problem, target: Target) -> str | None:
    reason = constant_refusal(problem, target) or needs_bytes(problem)
    if reason is not None:
        return reason
    if cast(MatMul, problem.op).transpose_a and problem.input(0).rank >= 2:
        return "found a transposed left side, needed rows"
    return reject_deep(product_of(problem).k)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    x = Format(DType.QINT8, format_of(problem, 0).layout)
    found = byte_signatures(problem, x, Format.row_major(problem.outputs[0]).layout)
    if not cast(MatMul, problem.op).epilogue.residual:
        return found
    layout = format_of(problem, len(problem.inputs) - 1).layout
    return tuple(replace(s, inputs=(*s.inputs[:-1], Format(s.outputs[0].dtype, layout))) for s in found)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """mr, nv: rows and vectors of a tile. lines: how far ahead a panel is prefetched, 0 for the next one instead."""
    product = product_of(problem)
    tiles = tuple({**tile, "lines": 0} for tile in byte_tiles(product.m, product.n, target))
    if product.m > _FEW_ROWS:
        return tiles
    vectors = math.ceil(product.n / target.f32_lanes)
    return tuple({"mr": product.m, "nv": nv, "lines": lines} for nv, lines in _STREAMS
                 if nv <= vectors and product.m <= most_byte_rows(target, nv)) or tiles


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    b = matrices_of(problem, values)
    return packed_weights(problem, b.swapaxes(1, 2)[:, :, None, :], values, schedule["nv"], target)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product, mr = product_of(problem), schedule["mr"]
    kernel = KernelSpec.of(
        "matmul_bytes", mr=mr, nv=schedule["nv"], epilogue=str(cast(MatMul, problem.op).epilogue),
        kept=signature.outputs[0].dtype.value, rest=rest_of(product.k), ahead=schedule["lines"] * CACHE_LINE,
    )  # fmt: skip
    words = (
        source(0), target_of(0), packed(0), packed(1), table(0), table(1), residual_word(problem), packed(2),
        product.batches, product.m, math.ceil(product.k / STEP), last_step(product.k), product.n, product.k,
    )  # fmt: skip
    tables = (row_offsets(product.m, mr, product.k), batch_table(product, product.m * product.k, 1))
    return Built(launches=(Launch(kernel, words),), tables=tables)


MATMUL_PACKED_QINT8_PLAIN = Routine(
    name="matmul.packed.qint8.plain",
    op=MatMul,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=_pack,
    build=_build,
    packs=(1, 2),
    computes=DType.QINT8,
)
