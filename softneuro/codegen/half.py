"""Conversions between float32 vectors and the two 16-bit floats, as LLVM vector code.

float16 (``f16``) through the processor's instructions where the target has them (F16C, ARMv8), else in integer
arithmetic; bfloat16 (``bf16``) in integer arithmetic, or by an instruction where that may take tiny numbers for 0. Both
round to nearest, ties to even, and keep NaN quiet. 16-bit values are vectors of int16.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32

__all__ = ["narrowed_value", "widened_value"]

_I16 = ir.IntType(16)
_EXPONENT = 23  # bits of a float32's fraction
_SHIFT = 13  # how many more bits float32 has for the fraction than float16
_REBIAS = (127 - 15) << _EXPONENT
_SMALLEST_NORMAL = (127 - 14) << _EXPONENT  # 2^-14, float16's, as float32
_TOO_LARGE = (127 + 16) << _EXPONENT  # 2^16, which is infinite in float16, as float32
_HALF = 126 << _EXPONENT  # 0.5: its last bit is worth 2^-24, as that of float16's subnormal numbers
_F32_INFINITY, _F16_INFINITY = 0x7F800000, 0x7C00
_F16_NAN, _BF16_QUIET = 0x7E00, 0x40


class _BrainFloat(ir.Type):  # type: ignore[misc]
    """LLVM's ``bfloat``, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BrainFloat)

    def __hash__(self) -> int:
        return hash(_BrainFloat)


def _has_instructions(target: Target) -> bool:
    return "+f16c" in target.features.split(",") or target.triple.startswith(("aarch64", "arm64"))


def _of(vector: Any, value: int) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def widened_value(builder: Any, target: Target, value: Any, found: str) -> Any:
    """The float32 vector of a vector of 16-bit floats, which is exact."""
    lanes = value.type.count
    words, floats = ir.VectorType(I32, lanes), ir.VectorType(F32, lanes)
    if found == "f16" and _has_instructions(target):
        return builder.fpext(builder.bitcast(value, ir.VectorType(ir.HalfType(), lanes)), floats)
    bits = builder.zext(value, words)
    if found == "bf16":
        return builder.bitcast(builder.shl(bits, _of(words, 16)), floats)
    return _widened_half(builder, bits, words, floats)


def _widened_half(builder: Any, bits: Any, words: Any, floats: Any) -> Any:
    """Fraction and exponent move and the exponent's bias changes; subnormals get their value by a subtraction."""
    magnitude = builder.and_(bits, _of(words, 0x7FFF))
    sign = builder.shl(builder.xor(bits, magnitude), _of(words, 16))
    moved = builder.shl(magnitude, _of(words, _SHIFT))
    normal = builder.add(moved, _of(words, _REBIAS))
    beyond = builder.icmp_unsigned(">=", magnitude, _of(words, _F16_INFINITY))
    infinite = builder.add(normal, _of(words, _REBIAS))
    least = builder.bitcast(_of(words, _SMALLEST_NORMAL), floats)
    raised = builder.bitcast(builder.add(moved, _of(words, _SMALLEST_NORMAL)), floats)
    subnormal = builder.bitcast(builder.fsub(raised, least), words)
    small = builder.icmp_unsigned("<", magnitude, _of(words, 0x400))
    chosen = builder.select(small, subnormal, builder.select(beyond, infinite, normal))
    return builder.bitcast(builder.or_(chosen, sign), floats)


def narrowed_value(builder: Any, target: Target, value: Any, wanted: str, *, tiny: bool = True) -> Any:
    """The vector of 16-bit floats nearest to a float32 vector.

    tiny: whether numbers too small to be normal must be kept as well; without them AVX512-BF16 has an instruction.
    """
    lanes = value.type.count
    words, halves = ir.VectorType(I32, lanes), ir.VectorType(_I16, lanes)
    if wanted == "f16" and _has_instructions(target):
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(ir.HalfType(), lanes)), halves)
    if wanted == "bf16" and not tiny and "+avx512bf16" in target.features.split(",") and lanes == 16:
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(_BrainFloat(), lanes)), halves)
    bits = builder.bitcast(value, words)
    narrow = _narrowed_brain if wanted == "bf16" else _narrowed_half
    return builder.trunc(narrow(builder, bits, words), halves)


def _narrowed_brain(builder: Any, bits: Any, words: Any) -> Any:
    """The upper half, one more where the lower one is more than a half, or a half and the upper one odd."""
    upper = builder.lshr(bits, _of(words, 16))
    odd = builder.and_(upper, _of(words, 1))
    rounded = builder.lshr(builder.add(builder.add(bits, odd), _of(words, 0x7FFF)), _of(words, 16))
    magnitude = builder.and_(bits, _of(words, 0x7FFFFFFF))
    no_number = builder.icmp_unsigned(">", magnitude, _of(words, _F32_INFINITY))
    return builder.select(no_number, builder.or_(upper, _of(words, _BF16_QUIET)), rounded)


def _narrowed_half(builder: Any, bits: Any, words: Any) -> Any:
    """As above with float16's bias; subnormals are rounded by adding 0.5, whose last bit is worth as much as theirs."""
    floats = ir.VectorType(F32, words.count)
    magnitude = builder.and_(bits, _of(words, 0x7FFFFFFF))
    sign = builder.lshr(builder.xor(bits, magnitude), _of(words, 16))
    odd = builder.and_(builder.lshr(magnitude, _of(words, _SHIFT)), _of(words, 1))
    rebiased = builder.add(builder.sub(magnitude, _of(words, _REBIAS)), _of(words, (1 << (_SHIFT - 1)) - 1))
    normal = builder.lshr(builder.add(rebiased, odd), _of(words, _SHIFT))
    half = builder.bitcast(_of(words, _HALF), floats)
    summed = builder.bitcast(builder.fadd(builder.bitcast(magnitude, floats), half), words)
    subnormal = builder.sub(summed, _of(words, _HALF))
    no_number = builder.icmp_unsigned(">", magnitude, _of(words, _F32_INFINITY))
    beyond = builder.select(no_number, _of(words, _F16_NAN), _of(words, _F16_INFINITY))
    large = builder.icmp_unsigned(">=", magnitude, _of(words, _TOO_LARGE))
    small = builder.icmp_unsigned("<", magnitude, _of(words, _SMALLEST_NORMAL))
    chosen = builder.select(small, subnormal, builder.select(large, beyond, normal))
    return builder.or_(chosen, sign)
