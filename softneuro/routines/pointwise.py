"""Pointwise programs in one pass over memory, with broadcasting, in row-major or channels-last order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pointwise import OPCODES, Pointwise, Ref, TypedInstruction, typed_program
from softneuro.ops.pointwise_opcodes import CAST_PREFIX
from softneuro.problem import Problem
from softneuro.routines.broadcast import Walk, walk
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, Word, source, target_of
from softneuro.types import DType, Format, Layout, TensorType

__all__ = ["POINTWISE_FUSED_F32_CHF", "POINTWISE_FUSED_F32_CHL"]

_MOST_INPUTS = 8
_WALK_AXES = 4
_INTEGERS = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64)
_DTYPES = (DType.F32, DType.F64, DType.BOOL, *_INTEGERS)
_CASTS = frozenset(CAST_PREFIX + dtype for dtype in _DTYPES) | {"where"}
_COMPARISONS = {"equal", "less", "less_equal", "greater", "greater_equal"}
_BITWISE = {name for name, opcode in OPCODES.items() if opcode.takes == "integer"}
_F32_OPCODES = _CASTS | {name for name in OPCODES if not name.startswith(CAST_PREFIX)} - _BITWISE
_F64_OPCODES = _CASTS | _COMPARISONS | {
    "add", "sub", "mul", "div", "pow", "neg", "abs", "sign", "max", "min", "reciprocal", "sqrt", "floor", "ceil", "round",
    "isnan", "isinf", "exp", "log", "sigmoid", "relu", "prelu", "clip", "leaky_relu", "hard_sigmoid", "hard_swish",
    "thresholded_relu", "softsign",
}  # fmt: skip
_INTEGER_OPCODES = _CASTS | _COMPARISONS | _BITWISE | {
    "add", "sub", "mul", "div", "pow", "mod", "fmod", "neg", "abs", "sign", "relu", "prelu", "clip", "max", "min",
}  # fmt: skip
_BOOL_OPCODES = _CASTS | {"not", "and", "or", "xor", "equal"}
_KNOWN: Mapping[DType, frozenset[str]] = {
    DType.F32: frozenset(_F32_OPCODES),
    DType.F64: frozenset(_F64_OPCODES),
    DType.BOOL: frozenset(_BOOL_OPCODES),
    **dict.fromkeys(_INTEGERS, frozenset(_INTEGER_OPCODES)),
}
_WHOLE_POWERS = range(65)  # of integers: each is a chain of multiplications
_WIDE_POWERS = (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)  # of float64


def _typed(problem: Problem) -> tuple[TypedInstruction, ...]:
    dtypes = tuple(problem.input(i).dtype for i in range(len(problem.inputs)))
    return typed_program(cast(Pointwise, problem.op).program, dtypes)


def _refused_instruction(typed: TypedInstruction) -> str | None:
    opcode, working = typed.instruction.opcode, typed.working
    if opcode not in _KNOWN[working]:
        return f"found {typed.instruction} on {working}, needed an opcode with native code for that type"
    return _refused_power(typed) if opcode == "pow" else None


def _refused_power(typed: TypedInstruction) -> str | None:
    exponent, working = typed.instruction.values[1], typed.working
    if isinstance(exponent, Ref):
        return None if working is DType.F32 else f"found a computed exponent of a base of {working}, needed a base of f32"
    if working is not DType.F32 and exponent not in (_WIDE_POWERS if working is DType.F64 else _WHOLE_POWERS):
        return f"found the exponent {exponent} for a base of {working}, needed a small whole number"
    return None


def _input_layout(type_: TensorType, output: TensorType, layout: Layout) -> Layout:
    """Inputs of the output's rank have its layout, others are row-major."""
    return layout if type_.rank == output.rank else Format.row_major(type_).layout


def _walk(problem: Problem, layout: Layout) -> Walk:
    output = problem.outputs[0]
    types = [problem.input(i) for i in range(len(problem.inputs))]
    return walk(output.shape, layout, [(t, _input_layout(t, output, layout)) for t in types])


def _output_layout(problem: Problem, layout: Layout) -> Layout:
    return Format.row_major(problem.outputs[0]).layout if layout is Layout.CHF else layout


def _reject(problem: Problem, layout: Layout) -> str | None:
    types = [problem.input(i) for i in range(len(problem.inputs))]
    if len(types) > _MOST_INPUTS:
        return f"found {len(types)} inputs, needed at most {_MOST_INPUTS}"
    for type_ in (*types, *problem.outputs):
        if type_.dtype not in _DTYPES:
            return f"found a tensor of {type_.dtype}, needed f32, f64, bool or integers"
    for typed in _typed(problem):
        reason = _refused_instruction(typed)
        if reason is not None:
            return reason
    rank = problem.outputs[0].rank
    if layout is Layout.CHL and rank < 3:
        return f"found an output of rank {rank}, needed 3 or more"
    found = _walk(problem, _output_layout(problem, layout))
    if len(found.sizes) > _WALK_AXES:
        return f"found a broadcast over {len(found.sizes)} axes that cannot be joined, needed at most {_WALK_AXES}"
    if any(s[-1] not in (0, t.dtype.itemsize) for s, t in zip(found.strides, types, strict=True)):
        return "found an input of lower rank that varies along other axes than channels, needed a broadcast in order"
    return None


def _signatures(problem: Problem, layout: Layout) -> tuple[Signature, ...]:
    output = problem.outputs[0]
    own = _output_layout(problem, layout)
    types = [problem.input(i) for i in range(len(problem.inputs))]
    inputs = tuple(Format(t.dtype, _input_layout(t, output, own)) for t in types)
    return (Signature(inputs, (Format(output.dtype, own),)),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    found = _walk(problem, signature.outputs[0].layout).padded(_WALK_AXES)
    words: list[Word] = [*found.sizes, target_of(0)]
    for index, strides in enumerate(found.strides):
        words += [source(index), *strides]
    dtypes = ",".join(problem.input(i).dtype for i in range(len(problem.inputs)))
    kernel = KernelSpec.of("pointwise", program=cast(Pointwise, problem.op).program, inputs=dtypes)
    return Built(launches=(Launch(kernel, tuple(words)),))


def _bound(layout: Layout) -> Routine:
    return Routine(
        name=f"pointwise.fused.f32.{layout}",
        op=Pointwise,
        reject=lambda problem, target: _reject(problem, layout),
        signatures=lambda problem: _signatures(problem, layout),
        build=_build,
        tolerance=8.0,
    )


POINTWISE_FUSED_F32_CHF = _bound(Layout.CHF)
POINTWISE_FUSED_F32_CHL = _bound(Layout.CHL)
