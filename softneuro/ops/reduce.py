"""Reductions over any axes, and the position of the largest or smallest element along one axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from softneuro.errors import DynamicShape, InputError
from softneuro.ops.axes import normal_axes, normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.types import Array, DType, TensorType

__all__ = ["KINDS", "ArgReduce", "Reduce"]

Axes = tuple[int, ...]


def _smallest(dtype: np.dtype[Any]) -> Any:
    """The identity of max: minus infinity, the smallest integer, or False."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _largest(dtype: np.dtype[Any]) -> Any:
    """The identity of min: infinity, the largest integer, or True."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _mean(x: Array, axes: Axes) -> Array:
    if math.prod(x.shape[axis] for axis in axes) == 0:
        return np.full([1 if axis in axes else size for axis, size in enumerate(x.shape)], np.nan)
    return np.asarray(np.mean(x, axis=axes, keepdims=True))


def _log_sum_exp(x: Array, axes: Axes) -> Array:
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    peak = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(peak), peak, 0)
    result: Array = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    return result


KINDS: Mapping[str, Callable[[Array, Axes], Array]] = {
    "sum": lambda x, axes: np.sum(x, axis=axes, keepdims=True, dtype=x.dtype),
    "mean": _mean,
    "max": lambda x, axes: np.max(x, axis=axes, keepdims=True, initial=_smallest(x.dtype)),
    "min": lambda x, axes: np.min(x, axis=axes, keepdims=True, initial=_largest(x.dtype)),
    "prod": lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype),
    "l1": lambda x, axes: np.sum(np.abs(x), axis=axes, keepdims=True, dtype=x.dtype),
    "l2": lambda x, axes: np.sqrt(np.sum(np.square(x), axis=axes, keepdims=True)),
    "sum_square": lambda x, axes: np.sum(np.square(x), axis=axes, keepdims=True, dtype=x.dtype),
    "log_sum": lambda x, axes: np.log(np.sum(x, axis=axes, keepdims=True)),
    "log_sum_exp": _log_sum_exp,
}
"""Every reduction by name: (input, axes) to the result with reduced axes of size 1."""


@dataclass(frozen=True)
class Reduce(Op):
    """A reduction of x over ``axes``, one of `KINDS`, as ONNX's Reduce operators.

    Inputs: x, and axes (integers) when they are not a parameter; a static form has them as a parameter or reduces
    over all axes (None). No axes at all means all of them, or none with ``noop_with_empty_axes``, which gives x
    itself whatever the kind. Empty lines give the kind's identity (0, 1, or the infinities; NaN for the mean).
    """

    name: ClassVar[str] = "reduce"
    kind: str
    axes: tuple[int, ...] | None = None
    keepdims: bool = True
    noop_with_empty_axes: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"reduction kind is {self.kind!r}, needed one of {', '.join(KINDS)}")

    def bind(self, types: Types, values: Values) -> Bound | None:
        if len(types) < 2 or types[1] is None:
            return None
        axes = values[1]
        if axes is None:
            raise DynamicShape("axes are computed at run time, needed values that are known before")
        return Bound(replace(self, axes=tuple(int(axis) for axis in axes.reshape(-1))), (0,))

    def reduced(self, rank: int) -> Axes | None:
        """The axes to reduce, ascending; None when x passes through unchanged."""
        if not self.axes:
            return None if self.noop_with_empty_axes else tuple(range(rank))
        return normal_axes(self.axes, rank)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        axes = self.reduced(x.rank)
        if axes is None:
            return (x,)
        if self.keepdims:
            return (TensorType(x.dtype, tuple(1 if i in axes else d for i, d in enumerate(x.shape))),)
        return (TensorType(x.dtype, tuple(d for i, d in enumerate(x.shape) if i not in axes)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        axes = self.reduced(x.ndim)
        if axes is None:
            return (x,)
        with np.errstate(divide="ignore", invalid="ignore"):
            y = np.asarray(KINDS[self.kind](x, axes)).astype(x.dtype, copy=False)
        return (y if self.keepdims else np.squeeze(y, axis=axes),)


@dataclass(frozen=True)
class ArgReduce(Op):
    """The int64 position along ``axis`` of the largest or smallest element, the first or the last of equal ones."""

    name: ClassVar[str] = "arg_reduce"
    kind: Literal["max", "min"]
    axis: int = 0
    keepdims: bool = True
    select_last: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        axis = normal_axis(self.axis, x.rank)
        if x.shape[axis] == 0:
            raise InputError(f"axis {axis} of shape {x.shape} is empty, needed at least one element")
        middle = (1,) if self.keepdims else ()
        return (TensorType(DType.I64, (*x.shape[:axis], *middle, *x.shape[axis + 1 :])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        find = np.argmax if self.kind == "max" else np.argmin
        if self.select_last:
            y = x.shape[self.axis] - 1 - find(np.flip(x, self.axis), axis=self.axis, keepdims=self.keepdims)
        else:
            y = find(x, axis=self.axis, keepdims=self.keepdims)
        return (np.asarray(y, np.int64),)
