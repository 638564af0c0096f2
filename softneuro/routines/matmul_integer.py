"""Products of 8-bit integers with zero points: the right side packed once, or when the run has computed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softneuro.codegen.integer_forms import integer_form
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.integer import IntegerMatMul
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.integer_product import (
    Side,
    build_product,
    constant_value,
    integer_product,
    integer_refusal,
    integer_schedules,
    optional_input,
    pack_integers,
    packed_bytes,
    product_kernels,
    zero_places,
)
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, scratch, source, table
from softneuro.routines.sizes import round_up
from softneuro.types import Array, DType

__all__ = ["INTEGER_MATMUL_BATCHED_I8_CHF", "INTEGER_MATMUL_PACKED_I8_PLAIN"]


def _leaves_zeros(problem: Problem) -> bool:
    """Whether bytes of the right side may differ from what they stand for, before its values are known."""
    return problem.input(1).dtype is DType.U8 or optional_input(problem, 3) is not None


def _reject(problem: Problem, target: Target) -> str | None:
    return integer_refusal(problem)


def _reject_computed(problem: Problem, target: Target) -> str | None:
    if not problem.constant[1] or (optional_input(problem, 3) is not None and not problem.constant[3]):
        return "found a right side or zero points of it that are computed at run time, needed constants"
    return integer_refusal(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _signatures_packed(problem: Problem) -> tuple[Signature, ...]:
    every = row_major_signature(problem)
    return (Signature(tuple(None if i in (1, 3) else f for i, f in enumerate(every.inputs)), every.outputs),)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    b, zero = values[1], constant_value(values, 3)
    assert b is not None
    matrices = b.reshape(1, -1, 1) if b.ndim == 1 else b.reshape(-1, *b.shape[-2:])
    if zero is not None and zero.size > 1:
        zero = np.broadcast_to(zero, (*b.shape[:-2], 1, b.shape[-1])).reshape(-1, 1, b.shape[-1])
    elif zero is not None:
        zero = zero.reshape(1, 1, 1)
    return pack_integers(integer_form(target), schedule["nv"] * target.f32_lanes, matrices, zero)


def _build_packed(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return build_product(problem, schedule, target, Side(packed(0), packed(1), packed(2), _leaves_zeros(problem)))


def _panels_kernel(problem: Problem, schedule: Schedule, target: Target) -> KernelSpec:
    signed = problem.input(1).dtype is DType.I8
    return KernelSpec.of("integer_panels", form=integer_form(target).name, nv=schedule["nv"], signed=signed)


def _kernels_packed(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    return product_kernels(problem, schedule, target)


def _kernels(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    return _panels_kernel(problem, schedule, target), *product_kernels(problem, schedule, target)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product, form, b, zero = integer_product(problem), integer_form(target), problem.input(1), optional_input(problem, 3)
    panel_bytes, side_bytes = packed_bytes(product, form, schedule["nv"] * target.f32_lanes)
    panels, sides = scratch(), scratch(round_up(panel_bytes, 64))
    columns = zero.shape[-1] if zero is not None and zero.rank else 1
    tables = [np.ones(1, np.int64)]
    if zero is not None:
        tables.append(zero_places((*b.shape[:-2], 1, columns), zero.shape)[::columns])
    words = (source(1), panels, sides, product.b_count, product.k, product.n, 0 if zero is None else source(3),
             0 if zero is None else table(1), int(columns > 1))
    kernel = _panels_kernel(problem, schedule, target)
    right = Side(panels, sides, table(0), _leaves_zeros(problem), (Launch(kernel, words),), tuple(tables),
                 round_up(panel_bytes, 64) + round_up(side_bytes, 64))
    return build_product(problem, schedule, target, right)


INTEGER_MATMUL_PACKED_I8_PLAIN = Routine(
    name="integer_matmul.packed.i8.plain",
    op=IntegerMatMul,
    reject=_reject_computed,
    signatures=_signatures_packed,
    schedules=integer_schedules,
    pack=_pack,
    build=_build_packed,
    kernels=_kernels_packed,
    packs=(1, 3),
)

INTEGER_MATMUL_BATCHED_I8_CHF = Routine(
    name="integer_matmul.batched.i8.chf",
    op=IntegerMatMul,
    reject=_reject,
    signatures=_signatures,
    schedules=integer_schedules,
    build=_build,
    kernels=_kernels,
)
