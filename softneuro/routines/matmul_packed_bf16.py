"""Matrix product of rows kept as bfloat16 with a constant right side of bfloat16; sums are float32.

What it gives is kept as bfloat16 too, or as float32: a conversion spared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from softneuro.codegen.operands import Operands
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.brain import brain_literals, brain_panels_of
from softneuro.routines.linear import bias_of, panels_of
from softneuro.routines.linear import packed_signature as signature_of
from softneuro.routines.matmul_packed import packed_product
from softneuro.routines.matmul_shapes import constant_refusal, format_of, matrices_of, product_of, tile_schedules
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.types import Array, DType, Format

__all__ = ["MATMUL_PACKED_BF16_PLAIN", "bf16_signatures", "brain_product", "packed_brain_panels", "reject_brain"]


def reject_brain(problem: Problem, target: Target) -> str | None:
    """Why no routine with weights of bfloat16 computes this: they take a's rows as they are."""
    reason = constant_refusal(problem, target)
    if reason is not None:
        return reason
    return "found a transposed left side, needed rows" if cast(MatMul, problem.op).transpose_a else None


def bf16_signatures(problem: Problem) -> tuple[Signature, ...]:
    """Row-major, a as bfloat16, and the output (with the residual) as bfloat16 or float32."""
    residual = format_of(problem, len(problem.inputs) - 1).layout
    x, y = format_of(problem, 0).layout, Format.row_major(problem.outputs[0]).layout
    return tuple(signature_of(problem, Format(DType.BF16, x), Format(kept, y), Format(kept, residual))
                 for kept in (DType.BF16, DType.F32))


def packed_brain_panels(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None],
                        x: DType = DType.BF16) -> tuple[Array, ...]:
    """b as bfloat16 and bias (zeros without one) in panels of the schedule's ``nv`` vectors, for rows kept as ``x``."""
    width = schedule["nv"] * target.f32_lanes
    b = matrices_of(problem, values)
    bias = bias_of(problem, values, b.shape[2])
    return brain_panels_of(b, width, Operands(target, x.value, "bf16")), panels_of(bias.reshape(1, -1), width)


def brain_product(problem: Problem, signature: Signature, mr: int, nv: int, target: Target, x: DType = DType.BF16) -> Built:
    """The product in register tiles of mr rows, with b packed by `packed_brain_panels`."""
    operands = Operands(target, x.value, "bf16")
    types = brain_literals(signature, operands, product_of(problem).k)
    return packed_product(problem, mr, nv, False, target, operands, **types)


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    return tile_schedules(product_of(problem), target)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return brain_product(problem, signature, schedule["mr"], schedule["nv"], target)


MATMUL_PACKED_BF16_PLAIN = Routine(
    name="matmul.packed.bf16.plain",
    op=MatMul,
    reject=reject_brain,
    signatures=bf16_signatures,
    schedules=_schedules,
    pack=packed_brain_panels,
    build=_build,
    packs=(1, 2),
    computes=DType.BF16,
)
