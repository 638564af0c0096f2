"""Steps of reductions on vectors: identity, accumulation, and the way from lanes to one number."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import absolute_value, log_value, maximum_value, minimum_value, square_root_value
from softneuro.codegen.integer_values import INTEGER_VALUES
from softneuro.codegen.lanes import is_float, scalar_type, vector_type, widened
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, build_intrinsic, fma_value

__all__ = ["REDUCTIONS", "Reduction", "elementwise", "integer_reductions", "reduction"]

Emit = Callable[..., Any]


@dataclass(frozen=True)
class Reduction:
    """Intrinsics of one kind of reduction.

    start: the identity, for accumulators and missing lanes. step(sum, x): one more vector of elements.
    merge(sum, sum): two accumulators to one. across(sum): the lanes merged, a scalar. finish(sum, count): the
    result from a vector of merged sums and a vector of the number of elements.
    """

    start: float
    step: Any
    merge: Any
    across: Any
    finish: Any


@dataclass(frozen=True)
class _Kind:
    start: float
    step: Emit
    merge: Emit
    finish: Emit
    plain: Emit | None = None
    """merge without looking for NaN, where that is cheaper and does not pass it on"""


def _add(builder: Any, target: Target, a: Any, b: Any) -> Any:
    return builder.fadd(a, b)


def _add_absolute(builder: Any, target: Target, a: Any, x: Any) -> Any:
    return builder.fadd(a, absolute_value(builder, x))


def _add_square(builder: Any, target: Target, a: Any, x: Any) -> Any:
    return fma_value(builder, target, x, x, a)


def _multiply(builder: Any, target: Target, a: Any, x: Any) -> Any:
    return builder.fmul(a, x)


def _or_nan(builder: Any, x: Any, value: Any) -> Any:
    """x where it is NaN, else ``value``."""
    return builder.select(builder.fcmp_unordered("uno", x, x), x, value)


def _maximum(builder: Any, target: Target, a: Any, x: Any) -> Any:
    """The larger; NaN when either is."""
    return _or_nan(builder, x, maximum_value(builder, x, a))


def _plain_maximum(builder: Any, target: Target, a: Any, b: Any) -> Any:
    """The larger of a and b; b when either is NaN."""
    return maximum_value(builder, a, b)


def _plain_minimum(builder: Any, target: Target, a: Any, b: Any) -> Any:
    return minimum_value(builder, a, b)


def _minimum(builder: Any, target: Target, a: Any, x: Any) -> Any:
    """The smaller; NaN when either is."""
    return _or_nan(builder, x, minimum_value(builder, x, a))


def _as_is(builder: Any, target: Target, value: Any, count: Any) -> Any:
    return value


def _per_element(builder: Any, target: Target, value: Any, count: Any) -> Any:
    return builder.fdiv(value, count)


def _log(builder: Any, target: Target, value: Any, count: Any) -> Any:
    return log_value(builder, target, value)


def _root(builder: Any, target: Target, value: Any, count: Any) -> Any:
    return square_root_value(builder, value)


REDUCTIONS: Mapping[str, _Kind] = {
    "sum": _Kind(0.0, _add, _add, _as_is),
    "mean": _Kind(0.0, _add, _add, _per_element),
    "max": _Kind(-math.inf, _maximum, _maximum, _as_is, plain=_plain_maximum),
    "min": _Kind(math.inf, _minimum, _minimum, _as_is, plain=_plain_minimum),
    "prod": _Kind(1.0, _multiply, _multiply, _as_is),
    "l1": _Kind(0.0, _add_absolute, _add, _as_is),
    "l2": _Kind(0.0, _add_square, _add, _root),
    "sum_square": _Kind(0.0, _add_square, _add, _as_is),
    "log_sum": _Kind(0.0, _add, _add, _log),
}
"""The reductions of floats that kernels compute, by the op's kind; the last one of float32 only."""


@functools.cache
def integer_reductions(dtype: str) -> Mapping[str, _Kind]:
    """The reductions of an integer type that kernels compute, by the op's kind. They wrap around."""
    signed, bits = dtype[0] == "i", int(dtype[1:])
    half = 2 ** (bits - 1)
    smallest, largest = (-half, half - 1) if signed else (0, -1)  # -1: all bits

    def step(opcode: str) -> Emit:
        emit = INTEGER_VALUES[opcode]
        return lambda builder, target, a, x: emit(builder, signed, a, x)

    def add_absolute(builder: Any, target: Target, a: Any, x: Any) -> Any:
        return builder.add(a, INTEGER_VALUES["abs"](builder, signed, x))

    def add_square(builder: Any, target: Target, a: Any, x: Any) -> Any:
        return builder.add(a, builder.mul(x, x))

    add, multiply, larger, smaller = map(step, ("add", "mul", "max", "min"))
    return {
        "sum": _Kind(0, add, add, _as_is),
        "max": _Kind(smallest, larger, larger, _as_is),
        "min": _Kind(largest, smaller, smaller, _as_is),
        "prod": _Kind(1, multiply, multiply, _as_is),
        "l1": _Kind(0, add_absolute, add, _as_is),
        "sum_square": _Kind(0, add_square, add, _as_is),
    }


def _half(builder: Any, value: Any, start: int) -> Any:
    lanes = value.type.count // 2
    picks = ir.Constant(ir.VectorType(I32, lanes), list(range(start, start + lanes)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), picks)


def _across(builder: Any, target: Target, merge: Emit, value: Any) -> Any:
    """All lanes merged in pairs: halves on each other until one is left."""
    while value.type.count > 1:
        value = merge(builder, target, _half(builder, value, 0), _half(builder, value, value.type.count // 2))
    return builder.extract_element(value, I32(0))


def _across_or_nan(builder: Any, target: Target, plain: Emit, value: Any) -> Any:
    """All lanes merged by ``plain``, or NaN when a lane is: one look at all lanes is cheaper than one a merge."""
    lanes = value.type.count
    merged = _across(builder, target, plain, value)
    bad = builder.bitcast(builder.fcmp_unordered("uno", value, value), ir.IntType(lanes))
    found = builder.icmp_signed("!=", bad, ir.Constant(bad.type, 0))
    return builder.select(found, ir.Constant(merged.type, math.nan), merged)


def reduction(target: Target, kind: str, dtype: str = "f32") -> Reduction:
    """The intrinsics of a kind of `REDUCTIONS`, or `integer_reductions`, on elements of ``dtype``."""
    entry = REDUCTIONS[kind] if is_float(dtype) else integer_reductions(dtype)[kind]
    vector = vector_type(target, dtype)

    def lanes_to_one(builder: Any, a: list[Any]) -> Any:
        if entry.plain is None:
            return widened(builder, _across(builder, target, entry.merge, a[0]))
        return _across_or_nan(builder, target, entry.plain, a[0])

    def binary(emit: Emit) -> Any:
        return build_intrinsic(vector, [vector, vector], lambda b, a: emit(b, target, *a))

    return Reduction(
        start=entry.start,
        step=binary(entry.step),
        merge=binary(entry.merge),
        across=build_intrinsic(scalar_type(dtype), [vector], lanes_to_one),
        finish=binary(entry.finish),
    )


def elementwise(target: Target, emit: Emit) -> Any:
    """An intrinsic of one float32 vector from an emitter ``emit(builder, target, x)`` (see softneuro.codegen.elementary)."""
    vector = vector_type(target, "f32")
    return build_intrinsic(vector, [vector], lambda b, a: emit(b, target, a[0]))
