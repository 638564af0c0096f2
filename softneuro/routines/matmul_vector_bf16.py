"""A few rows times a constant matrix of bfloat16 (fully connected layers at small batch): half the bytes of float32.

Rows are kept as bfloat16, or as float32 and multiplied by weights that are widened on the way: another routine,
whose tensors are all float32. As in `matmul_vector`, register tiles take over for other numbers of rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from softneuro.codegen.operands import Operands
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.brain import brain_literals
from softneuro.routines.matmul_packed import packed_kernel
from softneuro.routines.matmul_packed_bf16 import bf16_signatures, brain_product, packed_brain_panels, reject_brain
from softneuro.routines.matmul_shapes import constant_signatures, product_of
from softneuro.routines.matmul_vector import (
    reject_many_rows,
    reject_matrices,
    tile_rows,
    vector_kernel,
    vector_product,
    vector_schedules,
)
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.types import DType

__all__ = ["MATMUL_VECTOR_BF16_PLAIN", "MATMUL_VECTOR_BF16_WEIGHTS_PLAIN"]

def _reject(problem: Problem, target: Target) -> str | None:
    return reject_brain(problem, target) or reject_matrices(problem)


def _types(x: DType, problem: Problem, signature: Signature, target: Target) -> dict[str, str | bool]:
    return brain_literals(signature, Operands(target, x.value, "bf16"), product_of(problem).k)


def _kernels(x: DType, problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    types = _types(x, problem, signature, target)
    others = packed_kernel(problem, tile_rows(schedule, target), schedule["nv"], **types)
    return vector_kernel(problem, schedule, **types), others


def _build(x: DType, problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    product = product_of(problem)
    if product.m != schedule["mr"]:
        return brain_product(problem, signature, tile_rows(schedule, target), schedule["nv"], target, x)
    steps = Operands(target, x.value, "bf16").steps(product.k)
    return vector_product(problem, schedule, steps, **_types(x, problem, signature, target))


MATMUL_VECTOR_BF16_PLAIN = Routine(
    name="matmul.vector.bf16.plain",
    op=MatMul,
    reject=_reject,
    signatures=bf16_signatures,
    schedules=vector_schedules,
    pack=packed_brain_panels,
    build=partial(_build, DType.BF16),
    unpromising=reject_many_rows,
    kernels=partial(_kernels, DType.BF16),
    packs=(1, 2),
    computes=DType.BF16,
)
MATMUL_VECTOR_BF16_WEIGHTS_PLAIN = replace(
    MATMUL_VECTOR_BF16_PLAIN,
    name="matmul.vector_weights.bf16.plain",
    signatures=constant_signatures,
    pack=partial(packed_brain_panels, x=DType.F32),
    build=partial(_build, DType.F32),
    kernels=partial(_kernels, DType.F32),
)
