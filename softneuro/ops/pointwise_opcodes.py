"""The opcodes of pointwise programs: operands, result type and numpy meaning of each.

Every function works in the data type it is given; NaN goes through max, min, relu and clip as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softneuro.ops.epilogue import ACTIVATIONS
from softneuro.types import Array, DType

__all__ = ["CAST_PREFIX", "OPCODES", "Opcode"]

CAST_PREFIX = "cast_"
Takes = Literal["float", "integer", "number", "bool", "any"]


@dataclass(frozen=True)
class Opcode:
    """One function of a pointwise program.

    operands: how many values it takes; parameters: how many numbers follow them, which must be literals.
    takes: what kind of values (``number`` is anything but bool). All values of one instruction have the same
    data type, except the condition of ``where`` (bool) and the exponent of ``pow`` (any number).
    result: the data type of the result, None for the type of the values (of the base for ``pow``).
    reference: the numpy meaning, of the values and then the parameters.
    """

    operands: int
    reference: Callable[..., Array]
    takes: Takes = "float"
    result: DType | None = None
    parameters: int = 0


def _is_integer(x: Array) -> bool:
    return np.issubdtype(x.dtype, np.integer)


def _div(a: Array, b: Array) -> Array:
    """ONNX Div: integers are divided towards zero (and by zero give 0, as numpy)."""
    if not _is_integer(a):
        return a / b
    quotient = a // b
    inexact = (a != quotient * b) & ((a < 0) != (b < 0))
    return np.where(b == 0, 0, quotient + inexact)


def _pow(base: Array, exponent: Array) -> Array:
    """ONNX Pow: the result has the base's type; integers to negative powers are truncated real powers."""
    if _is_integer(base) and not (_is_integer(exponent) and np.all(exponent >= 0)):
        return np.power(base.astype(np.float64), exponent)
    result: Array = np.power(base, exponent.astype(base.dtype))
    return result


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _selu(x: Array, alpha: float, gamma: float) -> Array:
    return gamma * _elu(x, alpha)


def _celu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(x / alpha), x)


def _floats(names: Mapping[str, Callable[[Array], Array]]) -> dict[str, Opcode]:
    return {name: Opcode(1, function) for name, function in names.items()}


_UNARY = {
    **{name: Opcode(1, a.reference, "number" if name == "clip" else "float", parameters=a.parameters)
       for name, a in ACTIVATIONS.items()},
    **_floats({
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "reciprocal": _reciprocal, "erf": _erf,
        "floor": np.floor, "ceil": np.ceil, "round": np.rint,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        "softplus": _softplus, "softsign": lambda x: x / (1.0 + np.abs(x)),
        "mish": lambda x: x * np.tanh(_softplus(x)),
    }),
    "relu": Opcode(1, lambda x: np.maximum(x, np.zeros((), x.dtype)), "number"),
    "neg": Opcode(1, np.negative, "number"),
    "abs": Opcode(1, np.abs, "number"),
    "sign": Opcode(1, np.sign, "number"),
    "elu": Opcode(1, _elu, parameters=1),
    "selu": Opcode(1, _selu, parameters=2),
    "celu": Opcode(1, _celu, parameters=1),
    "thresholded_relu": Opcode(1, lambda x, alpha: np.where(x > alpha, x, 0.0), parameters=1),
    "not": Opcode(1, np.logical_not, "bool", DType.BOOL),
    "bit_not": Opcode(1, np.invert, "integer"),
    "isnan": Opcode(1, np.isnan, "float", DType.BOOL),
    "isinf": Opcode(1, np.isinf, "float", DType.BOOL),
}  # fmt: skip

_BINARY = {
    "add": Opcode(2, np.add, "number"),
    "sub": Opcode(2, np.subtract, "number"),
    "mul": Opcode(2, np.multiply, "number"),
    "div": Opcode(2, _div, "number"),
    "pow": Opcode(2, _pow, "number"),
    "mod": Opcode(2, np.mod, "number"),
    "fmod": Opcode(2, np.fmod, "number"),
    "max": Opcode(2, np.maximum, "number"),
    "min": Opcode(2, np.minimum, "number"),
    "prelu": Opcode(2, lambda x, slope: np.where(x < 0, slope * x, x), "number"),
    "equal": Opcode(2, np.equal, "any", DType.BOOL),
    "less": Opcode(2, np.less, "number", DType.BOOL),
    "less_equal": Opcode(2, np.less_equal, "number", DType.BOOL),
    "greater": Opcode(2, np.greater, "number", DType.BOOL),
    "greater_equal": Opcode(2, np.greater_equal, "number", DType.BOOL),
    "and": Opcode(2, np.logical_and, "bool", DType.BOOL),
    "or": Opcode(2, np.logical_or, "bool", DType.BOOL),
    "xor": Opcode(2, np.logical_xor, "bool", DType.BOOL),
    "bit_and": Opcode(2, np.bitwise_and, "integer"),
    "bit_or": Opcode(2, np.bitwise_or, "integer"),
    "bit_xor": Opcode(2, np.bitwise_xor, "integer"),
    "shift_left": Opcode(2, np.left_shift, "integer"),
    "shift_right": Opcode(2, np.right_shift, "integer"),
}

_CASTS = {
    CAST_PREFIX + dtype: Opcode(1, lambda x, dtype=dtype: x.astype(dtype.numpy), "any", dtype)
    for dtype in DType if dtype not in (DType.STR, DType.OTHER)
}  # fmt: skip

OPCODES: Mapping[str, Opcode] = {**_UNARY, **_BINARY, "where": Opcode(3, np.where, "any"), **_CASTS}
"""Every opcode by name: the one list. ``cast_<dtype>`` truncates floats to integers; to bool it tests for 0."""
