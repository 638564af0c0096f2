"""Casts between float32 and the 16-bit floats, of whole tensors in any layout."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.ops.pointwise_opcodes import CAST_PREFIX
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.types import DType

__all__ = ["POINTWISE_CONVERT_HALF"]

_HALF = (DType.F16, DType.BF16)


def _reject(problem: Problem, target: Target) -> str | None:
    program = cast(Pointwise, problem.op).program
    instructions = parse_program(program)
    if len(instructions) != 1 or not instructions[0].opcode.startswith(CAST_PREFIX):
        return f"found program {program}, needed one cast"
    x, y = problem.input(0).dtype, problem.outputs[0].dtype
    if (x is DType.F32 and y in _HALF) or (x in _HALF and y is DType.F32):
        return None
    return f"found a cast of {x} to {y}, needed one between f32 and f16 or bf16"


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, y = problem.input(0), problem.outputs[0]
    kernel = KernelSpec.of("convert", found=x.dtype.value, wanted=y.dtype.value)
    return Built(launches=(Launch(kernel, (x.size, source(0), target_of(0), 0, 0)),))


POINTWISE_CONVERT_HALF = Routine(
    name="pointwise.convert.half.any", op=Pointwise, reject=_reject, signatures=same_layout_signatures, build=_build)
