"""A few rows times a constant matrix (fully connected layers at small batch), at the speed of memory."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.jit import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.matmul_shapes import (
    constant_refusal,
    constant_signatures,
    packed_panels,
    product_of,
    residual_word,
)
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of

__all__ = ["MATMUL_VECTOR_F32_PLAIN"]

_MOST_ROWS = 8
_VARIANTS = ((2, 2, 2048), (2, 4, 256), (1, 4, 256), (4, 1, 2048), (4, 2, 1024), (1, 2, 512), (1, 1, 1024))
"""(vectors of a panel, panels read at once, bytes prefetched ahead) that came out fast on some size."""


def _reject(problem: Problem, target: Target) -> str | None:
    reason = constant_refusal(problem, target)
    if reason is not None:
        return reason
    product = product_of(problem)
    if product.b_count > 1:
        return f"found {product.b_count} matrices on the right, needed one"
    if cast(MatMul, problem.op).transpose_a:
        return "found a transposed left side, needed rows"
    if product.m > _MOST_ROWS:
        return f"found {product.m} rows, needed at most {_MOST_ROWS}"
    return None


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    product = product_of(problem)
    found: list[Schedule] = []
    for nv, streams, ahead in _VARIANTS:
        cells = nv * streams
        registers = (product.m + 1) * cells + 1 if product.m > 1 else cells + 1
        useful = cells == 1 or (cells - 1) * target.f32_lanes < product.n
        if registers <= target.registers and useful:
            found.append({"nv": nv, "streams": streams, "ahead": ahead})
    return tuple(found[:4])


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product = product_of(problem)
    words = (source(0), target_of(0), packed(0), packed(1), residual_word(problem), product.k, product.n)
    kernel = KernelSpec.of("matmul_vector", mr=product.m, epilogue=str(cast(MatMul, problem.op).epilogue), **schedule)
    return Built(launches=(Launch(kernel, words),))


MATMUL_VECTOR_F32_PLAIN = Routine(
    name="matmul.vector.f32.plain",
    op=MatMul,
    reject=_reject,
    signatures=constant_signatures,
    schedules=_schedules,
    pack=packed_panels,
    build=_build,
    packs=(1, 2),
)
