"""Pointwise programs as LLVM vector code: one value of ``lanes`` elements per input and per instruction.

Floats are float or double vectors, integers vectors of their width, bool vectors of bits (bytes in memory).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen import elementary
from softneuro.codegen.elementary import absolute_value, constant, copy_sign, maximum_value, minimum_value
from softneuro.codegen.functions import ACTIVATION_VALUES
from softneuro.codegen.integer_values import BOOL_VALUES, INTEGER_VALUES, whole_power
from softneuro.codegen.power import constant_power_value, power_value
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, call_intrinsic, float_bits
from softneuro.codegen.wide_functions import WIDE_VALUES, wide_exp, wide_log, wide_sigmoid
from softneuro.ops.pointwise import Ref, TypedInstruction
from softneuro.ops.pointwise_opcodes import CAST_PREFIX

__all__ = ["element_bytes", "from_memory", "memory_type", "program_value", "to_memory"]

_FLOATS = {"f32": F32, "f64": ir.DoubleType()}
_BITS = {"f32": 32, "f64": 64, "bool": 8, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}


def element_bytes(dtype: str) -> int:
    """Bytes of one element in memory."""
    return _BITS[dtype] // 8


def memory_type(dtype: str) -> ir.Type:
    """The LLVM type of one element in memory."""
    return _FLOATS[dtype] if dtype in _FLOATS else ir.IntType(_BITS[dtype])


def from_memory(builder: Any, dtype: str, loaded: Any) -> Any:
    """The value of a vector as loaded."""
    return builder.icmp_unsigned("!=", loaded, _zero(loaded)) if dtype == "bool" else loaded


def to_memory(builder: Any, dtype: str, value: Any) -> Any:
    """The vector to store for a value."""
    return builder.zext(value, ir.VectorType(ir.IntType(8), value.type.count)) if dtype == "bool" else value


def _zero(like: Any) -> Any:
    return ir.Constant(like.type, [0] * like.type.count)


def _literal(value: float, dtype: str, lanes: int) -> Any:
    """A number as a vector of a data type; integers are truncated and clamped into their range."""
    if dtype in _FLOATS:
        return ir.Constant(ir.VectorType(_FLOATS[dtype], lanes), [value] * lanes)
    if dtype == "bool":
        return ir.Constant(ir.VectorType(ir.IntType(1), lanes), [int(bool(value))] * lanes)
    half = 2 ** (_BITS[dtype] - 1)
    low, high = (0, 2 * half - 1) if dtype[0] == "u" else (-half, half - 1)
    whole = high if value >= high else low if value <= low else int(value)
    return ir.Constant(ir.VectorType(memory_type(dtype), lanes), [whole] * lanes)


# floats -------------------------------------------------------------------------------------------------------------


def _unary(name: str) -> Callable[..., Any]:
    def emit(builder: Any, target: Target, x: Any) -> Any:
        return call_intrinsic(builder, f"llvm.{name}.v{x.type.count}f{float_bits(x)}", x.type, [x])

    return emit


def _or_nan(builder: Any, a: Any, chosen: Any) -> Any:
    """``chosen``, but ``a`` where a is NaN; not needed for constants."""
    return chosen if isinstance(a, ir.Constant) else builder.select(builder.fcmp_unordered("uno", a, a), a, chosen)


def _maximum(builder: Any, target: Target, a: Any, b: Any) -> Any:
    a, b = (b, a) if isinstance(b, ir.Constant) else (a, b)
    return _or_nan(builder, a, maximum_value(builder, a, b))


def _minimum(builder: Any, target: Target, a: Any, b: Any) -> Any:
    a, b = (b, a) if isinstance(b, ir.Constant) else (a, b)
    return _or_nan(builder, a, minimum_value(builder, a, b))


def _sign(builder: Any, target: Target, x: Any) -> Any:
    zero_or_nan = builder.fcmp_unordered("==", x, constant(x, 0.0))
    return builder.select(zero_or_nan, x, copy_sign(builder, constant(x, 1.0), x))


def _prelu(builder: Any, target: Target, x: Any, slope: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, constant(x, 0.0)), builder.fmul(x, slope), x)


_F32: Mapping[str, Callable[..., Any]] = {
    **ACTIVATION_VALUES,
    **WIDE_VALUES,
    "add": lambda b, target, x, y: b.fadd(x, y),
    "sub": lambda b, target, x, y: b.fsub(x, y),
    "mul": lambda b, target, x, y: b.fmul(x, y),
    "div": lambda b, target, x, y: b.fdiv(x, y),
    "neg": lambda b, target, x: b.fneg(x),
    "abs": lambda b, target, x: absolute_value(b, x),
    "reciprocal": lambda b, target, x: b.fdiv(constant(x, 1.0), x),
    "sqrt": _unary("sqrt"),
    "floor": _unary("floor"),
    "ceil": _unary("ceil"),
    "round": _unary("rint"),
    "sign": _sign,
    "max": _maximum,
    "min": _minimum,
    "prelu": _prelu,
    "pow": power_value,
    "exp": elementary.exp_value,
    "log": elementary.log_value,
    "erf": elementary.erf_value,
    "equal": lambda b, target, x, y: b.fcmp_ordered("==", x, y),
    "less": lambda b, target, x, y: b.fcmp_ordered("<", x, y),
    "less_equal": lambda b, target, x, y: b.fcmp_ordered("<=", x, y),
    "greater": lambda b, target, x, y: b.fcmp_ordered(">", x, y),
    "greater_equal": lambda b, target, x, y: b.fcmp_ordered(">=", x, y),
    "isnan": lambda b, target, x: b.fcmp_unordered("uno", x, x),
    "isinf": lambda b, target, x: b.fcmp_ordered("==", absolute_value(b, x), constant(x, math.inf)),
}
_F64: Mapping[str, Callable[..., Any]] = {**_F32, "exp": wide_exp, "log": wide_log, "sigmoid": wide_sigmoid}


# casts ---------------------------------------------------------------------------------------------------------------


def _cast(builder: Any, value: Any, found: str, wanted: str) -> Any:
    lanes = value.type.count
    if wanted == "bool":
        if found in _FLOATS:
            return builder.fcmp_unordered("!=", value, constant(value, 0.0))
        return value if found == "bool" else builder.icmp_unsigned("!=", value, _zero(value))
    kind = ir.VectorType(memory_type(wanted), lanes)
    unsigned = found == "bool" or found[0] == "u"
    if wanted in _FLOATS and found in _FLOATS:
        widths = _BITS[found], _BITS[wanted]
        return value if widths[0] == widths[1] else (builder.fpext if widths[0] < widths[1] else builder.fptrunc)(value, kind)
    if wanted in _FLOATS:
        return builder.uitofp(value, kind) if unsigned else builder.sitofp(value, kind)
    if found in _FLOATS:
        return builder.fptoui(value, kind) if wanted[0] == "u" else builder.fptosi(value, kind)
    width = 1 if found == "bool" else _BITS[found]
    if width == _BITS[wanted]:
        return value
    if width > _BITS[wanted]:
        return builder.trunc(value, kind)
    return builder.zext(value, kind) if unsigned else builder.sext(value, kind)


def _instruction_value(builder: Any, target: Target, typed: TypedInstruction, arguments: list[Any]) -> Any:
    opcode, working = typed.instruction.opcode, typed.working
    if opcode == "where":
        return builder.select(*arguments)
    if opcode.startswith(CAST_PREFIX):
        return _cast(builder, arguments[0], working, typed.result)
    parameters = typed.instruction.parameters
    exponent = typed.instruction.values[-1]
    if opcode == "pow" and not isinstance(exponent, Ref):
        if working in _FLOATS:
            return constant_power_value(builder, target, arguments[0], exponent)
        return whole_power(builder, arguments[0], int(exponent))
    if opcode == "pow":
        arguments = [arguments[0], _cast(builder, arguments[1], typed.values[1], working)]
    if working in _FLOATS:
        return (_F32 if working == "f32" else _F64)[opcode](builder, target, *arguments, *parameters)
    numbers = [_literal(p, working, arguments[0].type.count) for p in parameters]
    return (BOOL_VALUES if working == "bool" else INTEGER_VALUES)[opcode](builder, working[0] == "i", *arguments, *numbers)


def program_value(builder: Any, target: Target, program: Sequence[TypedInstruction], inputs: Sequence[Any],
                  lanes: int) -> Any:
    """The result of a program on vectors of ``lanes`` elements. KeyError for an opcode without native code."""
    results: list[Any] = []
    for typed in program:
        arguments = [
            (inputs if value.kind == "x" else results)[value.index] if isinstance(value, Ref)
            else _literal(value, dtype, lanes)
            for value, dtype in zip(typed.instruction.values, typed.values, strict=True)
        ]
        results.append(_instruction_value(builder, target, typed, arguments))
    return results[-1]
