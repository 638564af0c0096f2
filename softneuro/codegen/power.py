"""x ** y on float32 vector values: short chains for common constant exponents, and the general case in float64."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import (
    absolute_value,
    constant,
    copy_sign,
    exp_of_parts,
    maximum_value,
    minimum_value,
    split_float,
    square_root_value,
)
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, call_intrinsic

__all__ = ["constant_power_value", "power_value"]

_LONGEST_CHAIN = 4


def constant_power_value(builder: Any, target: Target, x: Any, exponent: float) -> Any:
    """x ** exponent for one exponent: small integers by multiplication, halves by square root."""
    if exponent == 0.5:  # as numpy: -0 stays -0, and -inf gives NaN
        return square_root_value(builder, x)
    if exponent == -0.5:
        root = builder.fadd(square_root_value(builder, x), constant(x, 0.0))  # (-0) ** -0.5 is +inf
        inverse = builder.fdiv(constant(x, 1.0), root)
        infinite = builder.fcmp_ordered("==", x, constant(x, -math.inf))
        return builder.select(infinite, constant(x, 0.0), inverse)
    if abs(exponent) <= _LONGEST_CHAIN and exponent == int(exponent):
        base = x if exponent >= 0 else builder.fdiv(constant(x, 1.0), x)  # first, since x ** n may overflow
        return _whole_power(builder, base, int(abs(exponent)))
    return power_value(builder, target, x, constant(x, exponent))


def _whole_power(builder: Any, x: Any, exponent: int) -> Any:
    """x ** exponent by squaring, for exponent >= 0."""
    if exponent == 0:
        return constant(x, 1.0)
    if exponent == 1:
        return x
    half = _whole_power(builder, x, exponent // 2)
    square = builder.fmul(half, half)
    return builder.fmul(square, x) if exponent % 2 else square


ATANH_TAIL = (0.33333333337897764, 0.19999997812112863, 0.1428605443813145, 0.11088100700033887,
              0.09791978538914728)
"""(atanh(s) / s - 1) / s**2 as a polynomial in s**2 for |s| <= 0.1716; relative error of atanh below 4e-14."""


def _wide(builder: Any, x: Any) -> Any:
    return builder.fpext(x, ir.VectorType(ir.DoubleType(), x.type.count))


def _wide_log(builder: Any, x: Any) -> Any:
    """log(x) of a non-negative float32 in float64: log(m) = 2 atanh((m - 1) / (m + 1)), plus n ln 2."""
    fraction, exponent = split_float(builder, x)
    f, n = _wide(builder, fraction), _wide(builder, exponent)
    s = builder.fdiv(f, builder.fadd(f, constant(f, 2.0)))
    z = builder.fmul(s, s)
    tail = constant(f, ATANH_TAIL[-1])
    for coefficient in reversed((1.0, *ATANH_TAIL[:-1])):
        tail = builder.fadd(builder.fmul(tail, z), constant(f, coefficient))
    log = builder.fadd(builder.fmul(n, constant(f, math.log(2.0))), builder.fmul(builder.fadd(s, s), tail))
    log = builder.select(builder.fcmp_ordered("==", x, constant(x, 0.0)), constant(f, -math.inf), log)
    return builder.select(builder.fcmp_ordered("==", x, constant(x, math.inf)), constant(f, math.inf), log)


def _is_odd(builder: Any, y: Any) -> Any:
    """Whether a whole y is odd; from 2**24 on, all float32 are even."""
    integers = ir.VectorType(I32, y.type.count)
    small = minimum_value(builder, constant(y, 2.0**24), absolute_value(builder, y))
    return builder.trunc(builder.fptosi(small, integers), ir.VectorType(ir.IntType(1), y.type.count))


def power_value(builder: Any, target: Target, x: Any, y: Any) -> Any:
    """x ** y with C's special cases: exp(y log|x|) with the product in float64, and the sign from y."""
    magnitude = absolute_value(builder, x)
    product = builder.fmul(_wide(builder, y), _wide_log(builder, magnitude))
    product = minimum_value(builder, constant(product, 89.0),
                            maximum_value(builder, constant(product, -105.0), product))
    double = f"llvm.rint.v{x.type.count}f64"
    n = call_intrinsic(builder, double, product.type, [builder.fmul(product, constant(product, math.log2(math.e)))])
    r = builder.fsub(product, builder.fmul(n, constant(product, math.log(2.0))))
    power = exp_of_parts(builder, target, builder.fptrunc(n, x.type), builder.fptrunc(r, x.type))

    one, zero = constant(x, 1.0), constant(x, 0.0)
    whole = builder.fcmp_ordered("==", call_intrinsic(builder, f"llvm.rint.v{x.type.count}f32", x.type, [y]), y)
    signed = builder.select(builder.and_(whole, _is_odd(builder, y)), copy_sign(builder, power, x), power)
    finite_negative = builder.and_(builder.fcmp_ordered("<", x, zero),
                                   builder.fcmp_ordered(">", x, constant(x, -math.inf)))
    undefined = builder.and_(finite_negative, builder.not_(whole))
    nan = builder.or_(undefined, builder.fcmp_unordered("uno", x, y))
    result = builder.select(nan, constant(x, math.nan), signed)
    is_one = builder.and_(builder.fcmp_ordered("==", magnitude, one), whole)
    result = builder.select(is_one, builder.select(_is_odd(builder, y), x, one), result)
    trivial = builder.or_(builder.fcmp_ordered("==", y, zero), builder.fcmp_ordered("==", x, one))
    return builder.select(trivial, one, result)
