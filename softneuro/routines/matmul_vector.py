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

__all__ = ["MATMUL_VECTOR_F32_PLAIN"]

_MOST_ROWS = 8
_MOST_TILE_ROWS = 14
_VARIANTS = ((2, 2, 32), (2, 4, 4), (1, 4, 4), (4, 1, 32), (4, 2, 16), (1, 2, 8), (1, 1, 16))
"""(vectors of a panel, panels read at once, cache lines prefetched ahead) that came out fast on some size."""


def _reject(problem: Problem, target: Target) -> str | None:
    reason = constant_refusal(problem, target)
    if reason is not None:
        return reason
    count = product_of(problem).b_count
    if count > 1:
        return f"found {count} matrices on the right, needed one"
    if cast(MatMul, problem.op).transpose_a:
        return "found a transposed left side, needed rows"
    return None


def _unpromising(problem: Problem, target: Target) -> str | None:
    rows = product_of(problem).m
    return f"found {rows} rows, needed at most {_MOST_ROWS}" if rows > _MOST_ROWS else None


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
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


def _own_kernel(problem: Problem, schedule: Schedule) -> KernelSpec:
    mr, nv, streams, lines = (schedule[key] for key in ("mr", "nv", "streams", "lines"))
    epilogue = str(cast(MatMul, problem.op).epilogue)
    return KernelSpec.of("matmul_vector", mr=mr, nv=nv, streams=streams, ahead=CACHE_LINE * lines, epilogue=epilogue)


def _tile_rows(schedule: Schedule, target: Target) -> int:
    """Rows of the register tiles for other numbers of rows."""
    return min(_MOST_TILE_ROWS, target.most_rows(schedule["nv"]))


def _kernels(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    return _own_kernel(problem, schedule), packed_kernel(problem, _tile_rows(schedule, target), schedule["nv"])


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product = product_of(problem)
    if product.m != schedule["mr"]:
        return packed_product(problem, _tile_rows(schedule, target), schedule["nv"], False, target)
    words = (source(0), target_of(0), packed(0), packed(1), residual_word(problem), product.k, product.n)
    return Built(launches=(Launch(_own_kernel(problem, schedule), words),))


MATMUL_VECTOR_F32_PLAIN = Routine(
    name="matmul.vector.f32.plain",
    op=MatMul,
    reject=_reject,
    signatures=constant_signatures,
    schedules=_schedules,
    pack=packed_panels,
    build=_build,
    unpromising=_unpromising,
    kernels=_kernels,
    packs=(1, 2),
)
