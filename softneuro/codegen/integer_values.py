"""Pointwise functions of integer and bool vector values, emitted as LLVM IR.

Arithmetic wraps around; a division by 0 gives 0, as in numpy (and never traps, nor does the smallest over -1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir

__all__ = ["BOOL_VALUES", "INTEGER_VALUES", "whole_power"]

Emit = Callable[..., Any]
"""emit(builder, signed, *values)"""


def _whole(like: Any, value: int) -> Any:
    return ir.Constant(like.type, [value] * like.type.count)


def _compare(operator: str) -> Emit:
    def emit(builder: Any, signed: bool, a: Any, b: Any) -> Any:
        return (builder.icmp_signed if signed else builder.icmp_unsigned)(operator, a, b)

    return emit


def _choose(operator: str) -> Emit:
    compare = _compare(operator)
    return lambda b, signed, x, y: b.select(compare(b, signed, x, y), x, y)


def _clip(builder: Any, signed: bool, x: Any, low: Any, high: Any) -> Any:
    return _choose("<")(builder, signed, _choose(">")(builder, signed, x, low), high)


def _sign(builder: Any, signed: bool, x: Any) -> Any:
    negative = builder.select(builder.icmp_signed("<", x, _whole(x, 0)), _whole(x, -1), _whole(x, 1))
    above = negative if signed else _whole(x, 1)
    return builder.select(builder.icmp_unsigned("==", x, _whole(x, 0)), x, above)


def _divisor(builder: Any, signed: bool, y: Any) -> tuple[Any, Any, Any]:
    """y with 1 for what would trap, whether it was 0, and whether it was -1 (None where that is an ordinary number)."""
    zero = builder.icmp_unsigned("==", y, _whole(y, 0))
    safe = builder.select(zero, _whole(y, 1), y)
    if not signed:
        return safe, zero, None
    minus = builder.icmp_signed("==", y, _whole(y, -1))
    return builder.select(minus, _whole(y, 1), safe), zero, minus


def _div(builder: Any, signed: bool, x: Any, y: Any) -> Any:
    """Towards zero."""
    divisor, zero, minus = _divisor(builder, signed, y)
    quotient = (builder.sdiv if signed else builder.udiv)(x, divisor)
    if minus is not None:
        quotient = builder.select(minus, builder.neg(x), quotient)
    return builder.select(zero, _whole(x, 0), quotient)


def _remainder(builder: Any, signed: bool, x: Any, y: Any) -> Any:
    """With the sign of x."""
    divisor, zero, _ = _divisor(builder, signed, y)
    rest = (builder.srem if signed else builder.urem)(x, divisor)
    return builder.select(zero, _whole(x, 0), rest)


def _modulo(builder: Any, signed: bool, x: Any, y: Any) -> Any:
    """With the sign of y."""
    rest = _remainder(builder, signed, x, y)
    if not signed:
        return rest
    zero = _whole(x, 0)
    opposite = builder.icmp_signed("<", builder.xor(rest, y), zero)
    wrong = builder.and_(opposite, builder.icmp_unsigned("!=", rest, zero))
    return builder.select(wrong, builder.add(rest, y), rest)


def _shift_left(builder: Any, signed: bool, x: Any, y: Any) -> Any:
    zero = _whole(x, 0)
    fits = builder.icmp_unsigned("<", y, _whole(y, x.type.element.width))
    return builder.select(fits, builder.shl(x, builder.select(fits, y, zero)), zero)


def _shift_right(builder: Any, signed: bool, x: Any, y: Any) -> Any:
    """Of signed numbers, the sign comes in from the left."""
    zero, width = _whole(x, 0), x.type.element.width
    fits = builder.icmp_unsigned("<", y, _whole(y, width))
    if signed:
        return builder.ashr(x, builder.select(fits, y, _whole(y, width - 1)))
    return builder.select(fits, builder.lshr(x, builder.select(fits, y, zero)), zero)


def _prelu(builder: Any, signed: bool, x: Any, slope: Any) -> Any:
    return builder.select(builder.icmp_signed("<", x, _whole(x, 0)), builder.mul(x, slope), x) if signed else x


def whole_power(builder: Any, x: Any, exponent: int) -> Any:
    """x ** exponent by squaring, for exponent >= 0."""
    if exponent == 0:
        return _whole(x, 1)
    if exponent == 1:
        return x
    half = whole_power(builder, x, exponent // 2)
    square = builder.mul(half, half)
    return builder.mul(square, x) if exponent % 2 else square


INTEGER_VALUES: Mapping[str, Emit] = {
    "add": lambda b, signed, x, y: b.add(x, y),
    "sub": lambda b, signed, x, y: b.sub(x, y),
    "mul": lambda b, signed, x, y: b.mul(x, y),
    "div": _div,
    "mod": _modulo,
    "fmod": _remainder,
    "neg": lambda b, signed, x: b.neg(x),
    "abs": lambda b, signed, x: _choose(">")(b, True, x, b.neg(x)) if signed else x,
    "sign": _sign,
    "relu": lambda b, signed, x: _choose(">")(b, signed, x, _whole(x, 0)),
    "prelu": _prelu,
    "clip": _clip,
    "max": _choose(">"),
    "min": _choose("<"),
    "equal": _compare("=="),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "bit_and": lambda b, signed, x, y: b.and_(x, y),
    "bit_or": lambda b, signed, x, y: b.or_(x, y),
    "bit_xor": lambda b, signed, x, y: b.xor(x, y),
    "bit_not": lambda b, signed, x: b.not_(x),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}
"""Emitters by the opcode's name; ``signed`` says how the bits are read."""

BOOL_VALUES: Mapping[str, Emit] = {
    "not": lambda b, signed, x: b.not_(x),
    "and": lambda b, signed, x, y: b.and_(x, y),
    "or": lambda b, signed, x, y: b.or_(x, y),
    "xor": lambda b, signed, x, y: b.xor(x, y),
    "equal": lambda b, signed, x, y: b.not_(b.xor(x, y)),
}
"""Emitters for vectors of bits."""
