"""Functions that are rarely a run's cost, computed on float64 vectors: simple series, and no care for cancellation.

Those of float32 (`WIDE_VALUES`) widen, compute and round once: their errors are below one unit in the last place of
float32. `wide_exp` and `wide_log` are good to a few units of float64 and serve that type too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.elementary import (
    absolute_value,
    constant,
    copy_sign,
    maximum_value,
    minimum_value,
    square_root_value,
)
from softneuro.codegen.emit import CountedLoop
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I64, call_intrinsic

__all__ = ["WIDE_VALUES", "wide_exp", "wide_log", "wide_sigmoid"]

_SMALL = 1e-3  # below, odd functions are two terms of their series
_EXP_TERMS = [1.0 / math.factorial(k) for k in range(14)]
_ATANH_TERMS = [1.0 / (2 * k + 1) for k in range(12)]
_ATAN_TERMS = [(-1.0) ** k / (2 * k + 1) for k in range(13)]
_SIN_TERMS = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COS_TERMS = [(-1.0) ** k / math.factorial(2 * k) for k in range(8)]
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14  # the first has 11 zero bits at its end


def _series(builder: Any, terms: Sequence[float], x: Any) -> Any:
    """terms[0] + terms[1] x + ..., by Horner's rule."""
    value = constant(x, terms[-1])
    for term in reversed(terms[:-1]):
        value = builder.fadd(builder.fmul(value, x), constant(x, term))
    return value


def _whole(like: Any, value: int) -> Any:
    return ir.Constant(ir.VectorType(I64, like.type.count), [value] * like.type.count)


def _rounded(builder: Any, name: str, x: Any) -> Any:
    return call_intrinsic(builder, f"llvm.{name}.v{x.type.count}f64", x.type, [x])


def wide_exp(builder: Any, target: Target, x: Any) -> Any:
    """exp(x) in float64; 0 below -745 and infinity above 710."""
    integers = ir.VectorType(I64, x.type.count)
    clamped = minimum_value(builder, constant(x, 711.0), maximum_value(builder, constant(x, -746.0), x))
    n = _rounded(builder, "rint", builder.fmul(clamped, constant(x, 1.0 / math.log(2.0))))
    r = builder.fsub(builder.fsub(clamped, builder.fmul(n, constant(x, _LN2_HIGH))), builder.fmul(n, constant(x, _LN2_LOW)))
    value = _series(builder, _EXP_TERMS, r)
    power = builder.fptosi(builder.select(builder.fcmp_ordered("ord", n, n), n, constant(x, 0.0)), integers)
    half = builder.ashr(power, _whole(x, 1))
    for part in (half, builder.sub(power, half)):
        factor = builder.shl(builder.add(part, _whole(x, 1023)), _whole(x, 52))
        value = builder.fmul(value, builder.bitcast(factor, x.type))
    return value


def wide_log(builder: Any, target: Target, x: Any) -> Any:
    """log(x) in float64, as n ln 2 + 2 atanh((m - 1) / (m + 1)) for x = 2**n m; -inf at 0, NaN below."""
    integers = ir.VectorType(I64, x.type.count)
    tiny = builder.fcmp_ordered("<", x, constant(x, 2.0**-1022))
    bits = builder.bitcast(builder.select(tiny, builder.fmul(x, constant(x, 2.0**54)), x), integers)
    root = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    whole = builder.ashr(builder.sub(bits, _whole(x, root)), _whole(x, 52))
    m = builder.bitcast(builder.sub(bits, builder.shl(whole, _whole(x, 52))), x.type)
    n = builder.sitofp(builder.sub(whole, builder.select(tiny, _whole(x, 54), _whole(x, 0))), x.type)
    one = constant(x, 1.0)
    s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
    tail = builder.fmul(builder.fadd(s, s), _series(builder, _ATANH_TERMS, builder.fmul(s, s)))
    low = builder.fadd(tail, builder.fmul(n, constant(x, _LN2_LOW)))
    value = builder.fadd(builder.fmul(n, constant(x, _LN2_HIGH)), low)
    value = builder.select(builder.fcmp_ordered("<", x, constant(x, math.inf)), value, x)
    value = builder.select(builder.fcmp_ordered("==", x, constant(x, 0.0)), constant(x, -math.inf), value)
    return builder.select(builder.fcmp_ordered("<", x, constant(x, 0.0)), constant(x, math.nan), value)


def wide_sigmoid(builder: Any, target: Target, x: Any) -> Any:
    """1 / (1 + exp(-x)) in float64."""
    one = constant(x, 1.0)
    return builder.fdiv(one, builder.fadd(one, wide_exp(builder, target, builder.fneg(x))))


def _odd(builder: Any, x: Any, cubic: float, value: Any) -> Any:
    """``value`` of |x| with the sign of x; near 0 in place of it x + cubic x**3."""
    near = builder.fadd(x, builder.fmul(builder.fmul(builder.fmul(x, x), x), constant(x, cubic)))
    small = builder.fcmp_ordered("<", absolute_value(builder, x), constant(x, _SMALL))
    return builder.select(small, near, copy_sign(builder, value, x))


# angles: x in quarter turns ---------------------------------------------------------------------------------------------


def _power_residues() -> list[float]:
    """2**e modulo a full turn for e = 0..104, each rounded once, by whole numbers: pi to 600 bits (Machin's formula)."""
    bits = 600

    def inverse_tangent(x: int) -> int:
        term, total, k = (1 << bits) // x, 0, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= x * x
            k += 1
        return total

    turn = 2 * 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
    return [((1 << (bits + e)) % turn) / (1 << bits) for e in range(105)]


def _moderate(builder: Any, x: Any, narrow: Any) -> Any:
    """x, or where it is 2**24 or more in size a number of the same sine: its 24 bits times its power of two modulo a turn."""
    lanes = x.type.count
    large = builder.fcmp_ordered(">=", absolute_value(builder, x), constant(x, 2.0**24))
    mask = builder.bitcast(large, ir.IntType(lanes))

    def reduced(_: list[Any]) -> list[Any]:
        bits = builder.bitcast(narrow, ir.VectorType(ir.IntType(32), lanes))
        table = _residue_table(builder)
        value = x
        for lane in range(lanes):
            word = builder.extract_element(bits, ir.Constant(ir.IntType(32), lane))
            exponent = builder.and_(builder.lshr(word, ir.Constant(word.type, 23)), ir.Constant(word.type, 0xFF))
            whole = builder.and_(word, ir.Constant(word.type, 0x7FFFFF))
            whole = builder.or_(whole, ir.Constant(word.type, 0x800000))
            fits = builder.icmp_unsigned("<", builder.sub(exponent, ir.Constant(word.type, 150)), ir.Constant(word.type, 105))
            index = builder.select(fits, builder.sub(exponent, ir.Constant(word.type, 150)), ir.Constant(word.type, 0))
            place = builder.gep(table, [I64(0), builder.zext(index, I64)])
            product = builder.fmul(builder.uitofp(whole, ir.DoubleType()), builder.load(place))
            value = builder.insert_element(value, product, ir.Constant(ir.IntType(32), lane))
        finite = builder.fcmp_ordered("<", absolute_value(builder, x), constant(x, math.inf))
        chosen = builder.and_(large, finite)
        return [builder.select(chosen, copy_sign(builder, value, x), x)]

    return conditional(builder, builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0)), [x], reduced)[0]


def _residue_table(builder: Any) -> Any:
    name = "power_residues"
    found = builder.module.globals.get(name)
    if found is None:
        values = _power_residues()
        kind = ir.ArrayType(ir.DoubleType(), len(values))
        found = ir.GlobalVariable(builder.module, kind, name)
        found.linkage, found.global_constant = "internal", True
        found.initializer = ir.Constant(kind, values)
    return found


def _turned(builder: Any, x: Any, narrow: Any, quarters: int) -> Any:
    """sin(x + quarters pi / 2)."""
    moderate = _moderate(builder, x, narrow)
    n = _rounded(builder, "rint", builder.fmul(moderate, constant(x, 2.0 / math.pi)))
    high, low = 1.5707963109016418, 1.5893254773528196e-08  # pi / 2, the first in 26 bits so that n times it is exact
    r = builder.fsub(builder.fsub(moderate, builder.fmul(n, constant(x, high))), builder.fmul(n, constant(x, low)))
    square = builder.fmul(r, r)
    sine = builder.fmul(r, _series(builder, _SIN_TERMS, square))
    cosine = _series(builder, _COS_TERMS, square)
    known = builder.select(builder.fcmp_ordered("ord", n, n), n, constant(x, 0.0))
    known = builder.select(builder.fcmp_ordered("<", absolute_value(builder, known), constant(x, 2.0**40)), known,
                           constant(x, 0.0))
    quarter = builder.add(builder.fptosi(known, ir.VectorType(I64, x.type.count)), _whole(x, quarters))
    odd = builder.icmp_unsigned("!=", builder.and_(quarter, _whole(x, 1)), _whole(x, 0))
    negative = builder.icmp_unsigned("!=", builder.and_(quarter, _whole(x, 2)), _whole(x, 0))
    value = builder.select(odd, cosine, sine)
    return builder.select(negative, builder.fneg(value), value)


def _tangent(builder: Any, x: Any, narrow: Any) -> Any:
    return builder.fdiv(_turned(builder, x, narrow, 0), _turned(builder, x, narrow, 1))


def _inverse_tangent(builder: Any, x: Any) -> Any:
    """atan(x) for x >= 0, infinity included: of 1 / x above 1, and as twice the half angle's."""
    one = constant(x, 1.0)
    large = builder.fcmp_ordered(">", x, one)
    t = builder.select(large, builder.fdiv(one, x), x)
    for _ in range(2):
        t = builder.fdiv(t, builder.fadd(one, square_root_value(builder, builder.fadd(one, builder.fmul(t, t)))))
    angle = builder.fmul(builder.fmul(t, constant(x, 4.0)), _series(builder, _ATAN_TERMS, builder.fmul(t, t)))
    return builder.select(large, builder.fsub(constant(x, math.pi / 2), angle), angle)


def _atan(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    return copy_sign(builder, _inverse_tangent(builder, absolute_value(builder, x)), x)


def _leg(builder: Any, x: Any) -> Any:
    """sqrt(1 - x**2)."""
    one = constant(x, 1.0)
    return square_root_value(builder, builder.fmul(builder.fsub(one, x), builder.fadd(one, x)))


def _asin(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    return _atan(builder, target, builder.fdiv(x, _leg(builder, x)), narrow)


def _acos(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    one = constant(x, 1.0)
    ratio = builder.fdiv(builder.fsub(one, x), builder.fadd(one, x))
    half = _inverse_tangent(builder, square_root_value(builder, ratio))
    return builder.fadd(half, half)


# hyperbolic functions ---------------------------------------------------------------------------------------------------


def _exp_pair(builder: Any, target: Target, x: Any) -> tuple[Any, Any]:
    """exp(|x|) / 2 and exp(-|x|) / 2."""
    grown = builder.fmul(wide_exp(builder, target, absolute_value(builder, x)), constant(x, 0.5))
    return grown, builder.fdiv(constant(x, 0.25), grown)


def _sinh(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    return _odd(builder, x, 1.0 / 6.0, builder.fsub(*_exp_pair(builder, target, x)))


def _cosh(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    return builder.fadd(*_exp_pair(builder, target, x))


def _asinh(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    root = square_root_value(builder, builder.fadd(builder.fmul(x, x), constant(x, 1.0)))
    return _odd(builder, x, -1.0 / 6.0, wide_log(builder, target, builder.fadd(absolute_value(builder, x), root)))


def _acosh(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    one = constant(x, 1.0)
    root = square_root_value(builder, builder.fmul(builder.fsub(x, one), builder.fadd(x, one)))
    value = wide_log(builder, target, builder.fadd(x, root))
    return builder.select(builder.fcmp_ordered("<", x, one), constant(x, math.nan), value)


def _atanh(builder: Any, target: Target, x: Any, narrow: Any) -> Any:
    one, size = constant(x, 1.0), absolute_value(builder, x)
    ratio = builder.fdiv(builder.fadd(one, size), builder.fsub(one, size))
    return _odd(builder, x, 1.0 / 3.0, builder.fmul(wide_log(builder, target, ratio), constant(x, 0.5)))


# remainders -------------------------------------------------------------------------------------------------------------

_ROUNDS = 12  # of 24 bits: the quotient of two float32 is below 2**278
_EXACT = 2.0**28  # up to here a quotient's whole part is exact, and so is its product with the divisor


def _step(builder: Any, r: Any, divisor: Any) -> Any:
    """r less the whole multiples of ``divisor`` in it, for a quotient below `_EXACT`; both are positive."""
    rest = builder.fsub(r, builder.fmul(_rounded(builder, "trunc", builder.fdiv(r, divisor)), divisor))
    rest = builder.select(builder.fcmp_ordered("<", rest, constant(r, 0.0)), builder.fadd(rest, divisor), rest)
    return builder.select(builder.fcmp_ordered(">=", rest, divisor), builder.fsub(rest, divisor), rest)


def _fmod_sizes(builder: Any, x: Any, y: Any) -> Any:
    """fmod of two numbers that are not negative: exact."""
    integers = ir.VectorType(I64, x.type.count)

    def is_large(r: Any) -> Any:
        quotient = builder.fdiv(r, y)
        finite = builder.fcmp_ordered("<", quotient, constant(x, math.inf))
        return builder.and_(builder.fcmp_ordered(">=", quotient, constant(x, _EXACT)), finite)

    def shrunk(values: list[Any]) -> list[Any]:
        loop = CountedLoop(builder, I64(_ROUNDS), values)
        r = loop.carried[0]
        power = builder.and_(builder.bitcast(builder.fdiv(r, y), integers), _whole(x, 0x7FF << 52))
        scale = builder.fmul(builder.bitcast(power, x.type), constant(x, 2.0**-24))
        loop.end([builder.select(is_large(r), _step(builder, r, builder.fmul(scale, y)), r)])
        return loop.carried

    lanes = builder.bitcast(is_large(x), ir.IntType(x.type.count))
    (r,) = conditional(builder, builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)), [x], shrunk)
    return builder.select(builder.fcmp_ordered("<", x, y), x, _step(builder, r, y))


def _fmod(builder: Any, target: Target, x: Any, y: Any) -> Any:
    """With the sign of x."""
    return copy_sign(builder, _fmod_sizes(builder, absolute_value(builder, x), absolute_value(builder, y)), x)


def _mod(builder: Any, target: Target, x: Any, y: Any) -> Any:
    """With the sign of y, as Python has it."""
    rest, zero = _fmod(builder, target, x, y), constant(x, 0.0)
    opposite = builder.xor(builder.fcmp_ordered("<", rest, zero), builder.fcmp_ordered("<", y, zero))
    moved = builder.select(opposite, builder.fadd(rest, y), rest)
    return builder.select(builder.fcmp_ordered("==", rest, zero), copy_sign(builder, zero, y), moved)


def _widened(emit: Callable[..., Any]) -> Callable[..., Any]:
    """An emitter for one float32 operand from one for it in float64, which also gets the operand itself."""

    def rounded(builder: Any, target: Target, x: Any) -> Any:
        wide = builder.fpext(x, ir.VectorType(ir.DoubleType(), x.type.count))
        return builder.fptrunc(emit(builder, target, wide, x), ir.VectorType(F32, x.type.count))

    return rounded


def _widened_pair(emit: Callable[..., Any]) -> Callable[..., Any]:
    def rounded(builder: Any, target: Target, x: Any, y: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), x.type.count)
        value = emit(builder, target, builder.fpext(x, kind), builder.fpext(y, kind))
        return builder.fptrunc(value, ir.VectorType(F32, x.type.count))

    return rounded


WIDE_VALUES: Mapping[str, Callable[..., Any]] = {
    "sin": _widened(lambda b, target, x, narrow: _turned(b, x, narrow, 0)),
    "cos": _widened(lambda b, target, x, narrow: _turned(b, x, narrow, 1)),
    "tan": _widened(lambda b, target, x, narrow: _tangent(b, x, narrow)),
    "asin": _widened(_asin),
    "acos": _widened(_acos),
    "atan": _widened(_atan),
    "sinh": _widened(_sinh),
    "cosh": _widened(_cosh),
    "asinh": _widened(_asinh),
    "acosh": _widened(_acosh),
    "atanh": _widened(_atanh),
    "mod": _widened_pair(_mod),
    "fmod": _widened_pair(_fmod),
}
"""Emitters for float32 vectors by the opcode's name."""
