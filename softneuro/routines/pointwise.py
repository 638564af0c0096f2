"""Pointwise programs in one pass over memory, with broadcasting, in row-major or channels-last order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pointwise import OPCODES, Pointwise, Ref, TypedInstruction, typed_program
from softneuro.ops.pointwise_opcodes import CAST_PREFIX
from softneuro.problem import Problem
from softneuro.routines.broadcast import Walk, walk
from softneuro.routines.narrow import numbers_of
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, Word, packed, source, target_of
from softneuro.types import Array, DType, Format, Layout, TensorType

__all__ = ["POINTWISE_FUSED_BF16_CHF", "POINTWISE_FUSED_BF16_CHL", "POINTWISE_FUSED_F16_CHF", "POINTWISE_FUSED_F16_CHL",
           "POINTWISE_FUSED_F32_CHF", "POINTWISE_FUSED_F32_CHL", "POINTWISE_FUSED_QINT8_CHF", "POINTWISE_FUSED_QINT8_CHL"]

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


def _walk(problem: Problem, layout: Layout, kept: Sequence[Format | None] = ()) -> Walk:
    """kept: the formats of the inputs where they are not of the inputs' data types."""
    output = problem.outputs[0]
    types = [problem.input(i) for i in range(len(problem.inputs))]
    layouts = [_input_layout(t, output, layout) for t in types]
    stored = [TensorType(f.dtype, t.shape) if f else t for t, f in zip(types, kept, strict=True)] if kept else types
    return walk(output.shape, layout, list(zip(stored, layouts, strict=True)))


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


def _whole(problem: Problem) -> list[int]:
    """The inputs that are as large as the output and may be kept in fewer bits, as it may."""
    return [i for i, (t, constant) in enumerate(zip(problem.inputs, problem.constant, strict=True))
            if t == problem.outputs[0] and not constant]


def _refused_dtype(problem: Problem, layout: Layout, dtype: DType) -> str | None:
    reason = _reject(problem, layout)
    if reason is not None or dtype is DType.F32:
        return reason
    whole = _whole(problem)
    if problem.outputs[0].dtype is not DType.F32 or not whole:
        return f"found {problem.outputs[0]} of smaller or constant inputs, needed f32 of an input of that shape"
    if dtype is DType.QINT8 and None in (problem.output_quantisation(), *map(problem.input_quantisation, whole)):
        return f"found no quantisations for {dtype}, needed those of inputs and output"
    return None


def _narrow_signatures(problem: Problem, layout: Layout, dtype: DType) -> tuple[Signature, ...]:
    """Large inputs and output kept as ``dtype``, or either of them as float32; small inputs as they are."""
    (own,) = _signatures(problem, layout)
    if dtype is DType.F32:
        return (own,)
    whole = _whole(problem)
    inputs = tuple(Format(dtype, f.layout) if i in whole and f else f for i, f in enumerate(own.inputs))
    outputs = (Format(dtype, own.outputs[0].layout),)
    return Signature(inputs, outputs), Signature(inputs, own.outputs), Signature(own.inputs, outputs)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    known = problem.quantisations or (None,) * (len(problem.inputs) + 1)
    return (np.concatenate([numbers_of(quantisation) for quantisation in known]),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    found = _walk(problem, signature.outputs[0].layout, signature.inputs).padded(_WALK_AXES)
    words: list[Word] = [*found.sizes, target_of(0)]
    for index, strides in enumerate(found.strides):
        words += [source(index), *strides]
    program, dtypes = cast(Pointwise, problem.op).program, ",".join(problem.input(i).dtype for i in range(len(problem.inputs)))
    types = [*(problem.input(i) for i in range(len(problem.inputs))), problem.outputs[0]]
    kept = [*(f for f in signature.inputs if f), signature.outputs[0]]
    if all(f.dtype is t.dtype for f, t in zip(kept, types, strict=True)):
        return Built((Launch(KernelSpec.of("pointwise", program=program, inputs=dtypes), tuple(words)),))
    kernel = KernelSpec.of("pointwise", program=program, inputs=dtypes, found=",".join(f.dtype for f in kept[:-1]),
                           wanted=kept[-1].dtype.value)
    return Built((Launch(kernel, (*words, packed(0))),))


def _bound(layout: Layout, dtype: DType = DType.F32) -> Routine:
    return Routine(
        name=f"pointwise.fused.{dtype}.{layout}",
        op=Pointwise,
        reject=lambda problem, target: _refused_dtype(problem, layout, dtype),
        signatures=lambda problem: _narrow_signatures(problem, layout, dtype),
        build=_build,
        pack=_pack,
        tolerance=8.0,
    )


POINTWISE_FUSED_F32_CHF = _bound(Layout.CHF)
POINTWISE_FUSED_F32_CHL = _bound(Layout.CHL)
POINTWISE_FUSED_BF16_CHL = _bound(Layout.CHL, DType.BF16)
POINTWISE_FUSED_BF16_CHF = _bound(Layout.CHF, DType.BF16)
POINTWISE_FUSED_F16_CHL = _bound(Layout.CHL, DType.F16)
POINTWISE_FUSED_F16_CHF = _bound(Layout.CHF, DType.F16)
POINTWISE_FUSED_QINT8_CHL = _bound(Layout.CHL, DType.QINT8)
POINTWISE_FUSED_QINT8_CHF = _bound(Layout.CHF, DType.QINT8)
