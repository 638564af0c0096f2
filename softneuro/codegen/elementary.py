"""Elementary functions on float32 vector values, emitted as LLVM IR, and the arithmetic they are made of.

All take NaN to NaN and reach the right infinities. The polynomials are our own least-maximum-error fits (Lawson's
reweighted least squares, coefficients rounded to float32 one after the other); their errors are stated and tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, call_intrinsic, float_bits, fma_value

__all__ = ["absolute_value", "constant", "copy_sign", "decay_value", "erf_value", "exact_maximum_value",
           "exp_of_parts", "exp_value", "expm1_value", "log1p_value", "log_value", "maximum_value", "minimum_value",
           "normal_tail", "polynomial", "sigmoid_value", "softplus_value", "split_float", "square_root_value",
           "tanh_value"]


def constant(like: Any, value: float) -> Any:
    """``value`` in every lane, of the type of ``like``."""
    return ir.Constant(like.type, [value] * like.type.count)


def maximum_value(builder: Any, a: Any, b: Any) -> Any:
    """The larger; b when either is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def minimum_value(builder: Any, a: Any, b: Any) -> Any:
    """The smaller; b when either is NaN."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def exact_maximum_value(builder: Any, a: Any, b: Any) -> Any:
    """The larger; NaN when either is NaN."""
    return builder.select(builder.fcmp_unordered("uno", a, a), a, maximum_value(builder, a, b))


def _unary(builder: Any, name: str, x: Any) -> Any:
    return call_intrinsic(builder, f"llvm.{name}.v{x.type.count}f{float_bits(x)}", x.type, [x])


def absolute_value(builder: Any, x: Any) -> Any:
    """|x|."""
    return _unary(builder, "fabs", x)


def square_root_value(builder: Any, x: Any) -> Any:
    """The square root, correctly rounded."""
    return _unary(builder, "sqrt", x)


def copy_sign(builder: Any, magnitude: Any, sign: Any) -> Any:
    """``magnitude`` with the sign of ``sign``."""
    return call_intrinsic(builder, f"llvm.copysign.v{sign.type.count}f{float_bits(sign)}", sign.type, [magnitude, sign])


def polynomial(builder: Any, target: Target, coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial with ``coefficients``, lowest power first, by Horner's rule."""
    p = constant(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        p = fma_value(builder, target, p, x, constant(x, coefficient))
    return p


EXP_TAIL = (0.4999999701976776, 0.1666654646396637, 0.04166744649410248, 0.008366251364350319,
            0.0013869587564840913)
"""(exp(r) - 1 - r) / r**2 on |r| <= ln(2)/2; exp(r) - 1 from it has a relative error below 1.4e-8."""
_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


def _power_of_two(builder: Any, target: Target, p: Any, n: Any) -> Any:
    """p * 2**n for a whole float n: in one instruction, or through the exponent bits in two halves."""
    lanes = p.type.count
    if target.vector_bits == 512 and lanes == 16:
        mask, rounding = ir.Constant(ir.IntType(16), -1), I32(4)
        return call_intrinsic(builder, "llvm.x86.avx512.mask.scalef.ps.512", p.type, [p, n, p, mask, rounding])
    integers = ir.VectorType(I32, lanes)

    def shift(count: int) -> Any:
        return ir.Constant(integers, [count] * lanes)

    power = builder.fptosi(n, integers)
    half = builder.ashr(power, shift(1))
    for part in (half, builder.sub(power, half)):
        p = builder.fmul(p, builder.bitcast(builder.shl(builder.add(part, shift(127)), shift(23)), p.type))
    return p


def _split_exponent(builder: Any, target: Target, x: Any, low: float, high: float) -> tuple[Any, Any]:
    """n, r with x = n ln 2 + r and |r| <= ln(2)/2, x clamped into low..high first (inf: not from above).

    The split of ln 2 into two constants follows Cody and Waite (1980).
    """
    clamped = maximum_value(builder, constant(x, low), x)
    if high < math.inf:
        clamped = minimum_value(builder, constant(x, high), clamped)
    n = _unary(builder, "rint", builder.fmul(clamped, constant(x, _LOG2E)))
    r = fma_value(builder, target, n, constant(x, -_LN2_HIGH), clamped)
    return n, fma_value(builder, target, n, constant(x, -_LN2_LOW), r)


def exp_value(builder: Any, target: Target, x: Any) -> Any:
    """exp(x), denormal results included."""
    return exp_of_parts(builder, target, *_split_exponent(builder, target, x, -104.0, 88.8))


def decay_value(builder: Any, target: Target, x: Any) -> Any:
    """exp(x) for x <= 0."""
    return exp_of_parts(builder, target, *_split_exponent(builder, target, x, -104.0, math.inf))


def exp_of_parts(builder: Any, target: Target, n: Any, r: Any) -> Any:
    """2**n exp(r) for a whole float n in -152..130 and |r| <= ln(2)/2."""
    return _power_of_two(builder, target, polynomial(builder, target, (1.0, 1.0, *EXP_TAIL), r), n)


def expm1_value(builder: Any, target: Target, x: Any) -> Any:
    """exp(x) - 1 for x <= 0, precise near 0: 2**n (exp(r) - 1) + (2**n - 1)."""
    n, r = _split_exponent(builder, target, x, -30.0, math.inf)
    tail = polynomial(builder, target, EXP_TAIL, r)
    small = fma_value(builder, target, tail, builder.fmul(r, r), r)
    power = _power_of_two(builder, target, constant(x, 1.0), n)
    return fma_value(builder, target, power, small, builder.fsub(power, constant(x, 1.0)))


def sigmoid_value(builder: Any, target: Target, x: Any) -> Any:
    """1 / (1 + exp(-x)), as e / (1 + e) or 1 / (1 + e) with e = exp(-|x|)."""
    one = constant(x, 1.0)
    e = decay_value(builder, target, builder.fneg(absolute_value(builder, x)))
    above = builder.select(builder.fcmp_ordered("<", x, constant(x, 0.0)), e, one)
    return builder.fdiv(above, builder.fadd(one, e))


def tanh_value(builder: Any, target: Target, x: Any) -> Any:
    """The hyperbolic tangent, as m / (2 + m) with m = exp(-2 |x|) - 1, which never overflows."""
    m = expm1_value(builder, target, builder.fmul(absolute_value(builder, x), constant(x, -2.0)))
    return copy_sign(builder, builder.fdiv(m, builder.fadd(m, constant(x, 2.0))), x)


LOG_TAIL = (0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.166234090924263, 0.14201579988002777,
            -0.13159610331058502, 0.12762217223644257, -0.07636439055204391)
"""(log(1 + f) - f + f**2 / 2) / f**3 for 1 + f in sqrt(1/2)..sqrt(2); relative error of log(1 + f) below 5.9e-9."""


def _log_of_parts(builder: Any, target: Target, f: Any, n: Any) -> Any:
    """log(1 + f) + n ln 2 for 1 + f in sqrt(1/2)..sqrt(2)."""
    square = builder.fmul(f, f)
    tail = builder.fmul(polynomial(builder, target, LOG_TAIL, f), builder.fmul(square, f))
    tail = fma_value(builder, target, n, constant(f, _LN2_LOW), tail)
    tail = fma_value(builder, target, square, constant(f, -0.5), tail)
    return fma_value(builder, target, n, constant(f, _LN2_HIGH), builder.fadd(f, tail))


def split_float(builder: Any, x: Any) -> tuple[Any, Any]:
    """m - 1, n with x = 2**n m and m in sqrt(1/2)..sqrt(2), for positive finite x, denormals included."""
    integers = ir.VectorType(I32, x.type.count)

    def whole(value: int) -> Any:
        return ir.Constant(integers, [value] * x.type.count)

    tiny = builder.fcmp_ordered("<", x, constant(x, 2.0**-126))
    bits = builder.bitcast(builder.select(tiny, builder.fmul(x, constant(x, 2.0**23)), x), integers)
    root = 0x3F3504F3  # the bits of sqrt(1/2)
    n = builder.ashr(builder.sub(bits, whole(root)), whole(23))
    m = builder.bitcast(builder.sub(bits, builder.shl(n, whole(23))), x.type)
    n = builder.sub(n, builder.select(tiny, whole(23), whole(0)))
    return builder.fsub(m, constant(x, 1.0)), builder.sitofp(n, x.type)


def log_value(builder: Any, target: Target, x: Any) -> Any:
    """The natural logarithm; -inf at 0, NaN below."""
    f, n = split_float(builder, x)
    result = _log_of_parts(builder, target, f, n)
    infinite = builder.fcmp_ordered("==", x, constant(x, math.inf))
    result = builder.select(infinite, x, result)
    result = builder.select(builder.fcmp_ordered("==", x, constant(x, 0.0)), constant(x, -math.inf), result)
    return builder.select(builder.fcmp_unordered("<", x, constant(x, 0.0)), constant(x, math.nan), result)


def log1p_value(builder: Any, target: Target, y: Any) -> Any:
    """log(1 + y) for y in 0..1."""
    large = builder.fcmp_ordered(">", y, constant(y, math.sqrt(2.0) - 1.0))
    half = fma_value(builder, target, y, constant(y, 0.5), constant(y, -0.5))  # (1 + y) / 2 - 1
    n = builder.select(large, constant(y, 1.0), constant(y, 0.0))
    return _log_of_parts(builder, target, builder.select(large, half, y), n)


def softplus_value(builder: Any, target: Target, x: Any) -> Any:
    """log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|))."""
    y = decay_value(builder, target, builder.fneg(absolute_value(builder, x)))
    return builder.fadd(maximum_value(builder, constant(x, 0.0), x), log1p_value(builder, target, y))


TAIL_SCALE = 0.35
TAIL = (0.1396212875843048, 0.1398637443780899, 0.11981969326734543, 0.1055586189031601, -0.023226384073495865,
        0.1593395173549652, -0.255855917930603, 0.14403891563415527, -0.02915949374437332)
"""Q(t) exp(t**2 / 2) / u as a polynomial in u = 1 / (1 + 0.35 t) for t in 0..14.6; relative error below 6.3e-8."""


def normal_tail(builder: Any, target: Target, t: Any) -> Any:
    """Q(t), the probability that a standard normal variable exceeds t >= 0; 0 from t = 14.5.

    The form exp(-t**2 / 2) u P(u), u = 1 / (1 + p t), is that of Hastings, "Approximations for Digital Computers"
    (1955); the coefficients are our own. The rounding of t**2 is made good in the exponential.
    """
    t = minimum_value(builder, constant(t, 16.0), t)
    one = constant(t, 1.0)
    u = builder.fdiv(one, fma_value(builder, target, t, constant(t, TAIL_SCALE), one))
    p = builder.fmul(polynomial(builder, target, TAIL, u), u)
    square = builder.fmul(t, t)
    lost = fma_value(builder, target, t, t, builder.fneg(square))
    p = fma_value(builder, target, builder.fmul(lost, constant(t, -0.5)), p, p)
    return builder.fmul(p, decay_value(builder, target, builder.fmul(square, constant(t, -0.5))))


ERF = (0.12837915122509003, -0.3761250674724579, 0.11281978338956833, -0.026773398742079735, 0.005004345905035734,
       -0.0006053445977158844)
"""erf(x) / x - 1 as a polynomial in x**2 for |x| <= 0.9; relative error of erf below 1.5e-8."""
LOG_ERFC = (-0.0018222059588879347, -1.120397925376892, -0.6504536867141724, -0.09132283926010132,
            0.015652582049369812, -0.0012613862054422498)
"""log(erfc(x)) for x in 0.9..4; relative error of erf(x) from it below 2.8e-8."""


def erf_value(builder: Any, target: Target, x: Any) -> Any:
    """The error function: a polynomial up to 0.9, beyond it 1 - exp(log(erfc(|x|))); 1 from 4."""
    small = fma_value(builder, target, x, polynomial(builder, target, ERF, builder.fmul(x, x)), x)
    magnitude = minimum_value(builder, constant(x, 4.0), absolute_value(builder, x))
    complement = decay_value(builder, target, polynomial(builder, target, LOG_ERFC, magnitude))
    large = copy_sign(builder, builder.fsub(constant(x, 1.0), complement), x)
    return builder.select(builder.fcmp_ordered("<", magnitude, constant(x, 0.9)), small, large)
