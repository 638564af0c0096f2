"""Activations on float32 vector values, emitted as LLVM IR: the epilogue's and those of pointwise programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from softneuro.codegen.elementary import (
    absolute_value,
    constant,
    exp_value,
    expm1_value,
    maximum_value,
    minimum_value,
    normal_tail,
    sigmoid_value,
    softplus_value,
    tanh_value,
)
from softneuro.codegen.target import Target
from softneuro.codegen.vector import fma_value

__all__ = ["ACTIVATION_VALUES", "activation_value", "constant", "exp_value", "maximum_value", "minimum_value",
           "sigmoid_value"]


def _relu(builder: Any, target: Target, x: Any) -> Any:
    return maximum_value(builder, constant(x, 0.0), x)


def _clip(builder: Any, target: Target, x: Any, low: float, high: float) -> Any:
    return minimum_value(builder, constant(x, high), maximum_value(builder, constant(x, low), x))


def _below_zero(builder: Any, x: Any, value: Any) -> Any:
    """``value`` where x is negative, else x."""
    return builder.select(builder.fcmp_ordered("<", x, constant(x, 0.0)), value, x)


def _leaky_relu(builder: Any, target: Target, x: Any, alpha: float) -> Any:
    return _below_zero(builder, x, builder.fmul(x, constant(x, alpha)))


def _hard_sigmoid(builder: Any, target: Target, x: Any, alpha: float, beta: float) -> Any:
    line = fma_value(builder, target, x, constant(x, alpha), constant(x, beta))
    return _clip(builder, target, line, 0.0, 1.0)


def _hard_swish(builder: Any, target: Target, x: Any) -> Any:
    return builder.fmul(x, _hard_sigmoid(builder, target, x, 1.0 / 6.0, 0.5))


def _silu(builder: Any, target: Target, x: Any) -> Any:
    return builder.fmul(x, sigmoid_value(builder, target, x))


def _gelu(builder: Any, target: Target, x: Any) -> Any:
    """x Phi(x) without cancellation: max(x, 0) - |x| Q(|x|); |x| is limited for -inf, which gives -0."""
    magnitude = minimum_value(builder, constant(x, 16.0), absolute_value(builder, x))
    tail = normal_tail(builder, target, magnitude)
    return fma_value(builder, target, builder.fneg(magnitude), tail, maximum_value(builder, constant(x, 0.0), x))


def _gelu_tanh(builder: Any, target: Target, x: Any) -> Any:
    """0.5 x (1 + tanh(z)) = x sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x**3)."""
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    line = fma_value(builder, target, builder.fmul(x, x), constant(x, 0.044715 * scale), constant(x, scale))
    return builder.fmul(x, sigmoid_value(builder, target, builder.fmul(x, line)))


def _elu(builder: Any, target: Target, x: Any, alpha: float) -> Any:
    negative = minimum_value(builder, constant(x, 0.0), x)
    return _below_zero(builder, x, builder.fmul(expm1_value(builder, target, negative), constant(x, alpha)))


def _selu(builder: Any, target: Target, x: Any, alpha: float, gamma: float) -> Any:
    return builder.fmul(_elu(builder, target, x, alpha), constant(x, gamma))


def _celu(builder: Any, target: Target, x: Any, alpha: float) -> Any:
    negative = minimum_value(builder, constant(x, 0.0), x)
    scaled = expm1_value(builder, target, builder.fdiv(negative, constant(x, alpha)))
    return _below_zero(builder, x, builder.fmul(scaled, constant(x, alpha)))


def _thresholded_relu(builder: Any, target: Target, x: Any, alpha: float) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, constant(x, alpha)), x, constant(x, 0.0))


def _softsign(builder: Any, target: Target, x: Any) -> Any:
    return builder.fdiv(x, builder.fadd(constant(x, 1.0), absolute_value(builder, x)))


def _mish(builder: Any, target: Target, x: Any) -> Any:
    """x tanh(log(1 + e**x)) = x w / (w + 2) with w = e**x (e**x + 2)."""
    two = constant(x, 2.0)
    power = exp_value(builder, target, minimum_value(builder, constant(x, 40.0), x))
    w = builder.fmul(power, builder.fadd(power, two))
    return builder.fmul(x, builder.fdiv(w, builder.fadd(w, two)))


ACTIVATION_VALUES: Mapping[str, Callable[..., Any]] = {
    "relu": _relu,
    "clip": _clip,
    "leaky_relu": _leaky_relu,
    "sigmoid": sigmoid_value,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "silu": _silu,
    "tanh": tanh_value,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "thresholded_relu": _thresholded_relu,
    "softplus": softplus_value,
    "softsign": _softsign,
    "mish": _mish,
}
"""Emitters ``(builder, target, x, *parameters)`` by the opcode's name."""


def activation_value(builder: Any, target: Target, name: str, parameters: tuple[float, ...], x: Any) -> Any:
    """The epilogue's activation ``name`` (see softneuro.ops.epilogue.ACTIVATIONS) of a vector value."""
    return ACTIVATION_VALUES[name](builder, target, x, *parameters) if name else x
