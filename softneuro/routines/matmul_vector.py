"""A few rows times a constant matrix (fully connected layers at small batch), at the speed of memory.

The number of rows is part of the schedule. Where a run has others, the register tiles of `matmul_packed` take over:
they read the same panels.
"""

from __future__ import annotations

from typing import cast

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.linear import residual_word
from softneuro.routines.matmul_packed import packed_kernel, packed_product
from softneuro.routines.matmul_shapes import constant_refusal, constant_signatures, packed_panels, product_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of

__all__ = ["MATMUL_VECTOR_F32_PLAIN", "reject_many_rows", "reject_matrices", "tile_rows", "vector_kernel", "vector_product",
           "vector_schedules"]

_MOST_ROWS = 8
_MOST_TILE_ROWS = 14
_VARIANTS = ((2, 2, 32), (2, 4, 4), (1, 4, 4), (4, 1, 32), (4, 2, 16), (1, 2, 8), (1, 1, 16))
"""(vectors of a panel, panels read at once, cache lines prefetched ahead) that came out fast on some size."""


def reject_matrices(problem: Problem) -> str | None:
    """What all such routines need: one matrix, and rows on its left."""
    count = product_of(problem).b_count
    if count > 1:
        return f"found {count} matrices on the right, needed one"
    if cast(MatMul, problem.op).transpose_a:
        return "found a transposed left side, needed rows"
    return None


def reject_many_rows(problem: Problem, target: Target) -> str | None:
    """Why others are sure to be faster."""
    rows = product_of(problem).m
    return f"found {rows} rows, needed at most {_MOST_ROWS}" if rows > _MOST_ROWS else None


def vector_schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """mr: rows. nv, streams, lines: as in `_VARIANTS`."""
    product = product_of(problem)
    rows = min(product.m, _MOST_ROWS)
    found: list[Schedule] = []
    for nv, streams, lines in _VARIANTS:
        cells = nv * streams
        registers = (rows + 1) * cells + 1 if rows > 1 else cells + 1
        useful = cells == 1 or (cells - 1) * target.f32_lanes < product.n
        if registers <= target.registers and useful:
            found.append({"mr": rows, "nv": nv, "streams": streams, "lines": lines})
    return tuple(found[:4])


def vector_kernel(problem: Problem, schedule: Schedule, **types: str | bool) -> KernelSpec:
    """The kernel of a schedule; ``types`` as the kernel has them."""
    mr, nv, streams, lines = (schedule[key] for key in ("mr", "nv", "streams", "lines"))
    epilogue = str(cast(MatMul, problem.op).epilogue)
    return KernelSpec.of("matmul_vector", mr=mr, nv=nv, streams=streams, ahead=CACHE_LINE * lines, epilogue=epilogue, **types)


def vector_product(problem: Problem, schedule: Schedule, steps: int, **types: str | bool) -> Built:
    """The launch for as many rows as the schedule says; ``steps`` and ``types`` as the kernel has them."""
    product = product_of(problem)
    words = (source(0), target_of(0), packed(0), packed(1), residual_word(problem), product.k, product.n, steps)
    return Built(launches=(Launch(vector_kernel(problem, schedule, **types), words),))


def tile_rows(schedule: Schedule, target: Target) -> int:
    """Rows of the register tiles for other numbers of rows."""
    return min(_MOST_TILE_ROWS, target.most_rows(schedule["nv"]))


def _reject(problem: Problem, target: Target) -> str | None:
    return constant_refusal(problem, target) or reject_matrices(problem)


def _kernels(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    return vector_kernel(problem, schedule), packed_kernel(problem, tile_rows(schedule, target), schedule["nv"])


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product = product_of(problem)
    if product.m != schedule["mr"]:
        return packed_product(problem, tile_rows(schedule, target), schedule["nv"], False, target)
    return vector_product(problem, schedule, product.k)


MATMUL_VECTOR_F32_PLAIN = Routine(
    name="matmul.vector.f32.plain",
    op=MatMul,
    reject=_reject,
    signatures=constant_signatures,
    schedules=vector_schedules,
    pack=packed_panels,
    build=_build,
    unpromising=reject_many_rows,
    kernels=_kernels,
    packs=(1, 2),
)
