"""Normalisations: over the last axes (layer), with given statistics (batch), over each image's channel (instance)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Op, Types, Values
from softneuro.types import Array, Shape, TensorType

__all__ = ["BatchNorm", "InstanceNorm", "LayerNorm"]


def _standardised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """x with mean 0 and (up to epsilon) variance 1 over ``axes``."""
    if x.size == 0:
        return x
    centred = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(np.square(centred), axis=axes, keepdims=True)
    standardised: Array = centred / np.sqrt(variance + epsilon)
    return standardised


def _per_channel(values: Array, rank: int) -> Array:
    """A vector over channels, shaped to broadcast against (n, c, *spatial)."""
    return values.reshape(-1, *(1,) * (rank - 2))


def _need_inputs(types: Types, names: tuple[str, ...]) -> None:
    """Raise InputError unless there is one input for every name, after x."""
    if len(types) != 1 + len(names):
        raise InputError(f"found {len(types)} inputs, needed x, {', '.join(names)}")


def _need_channel_vectors(x: TensorType, types: Types, names: tuple[str, ...]) -> None:
    """Raise InputError unless every input after x is a vector with one element per channel."""
    _need_inputs(types, names)
    if x.rank < 2:
        raise InputError(f"input has shape {x.shape}, needed at least 2 axes")
    for name, type_ in zip(names, types[1:], strict=True):
        if type_ is None or type_.shape != (x.shape[1],):
            raise InputError(f"{name} has shape {type_ and type_.shape}, needed ({x.shape[1]},)")


@dataclass(frozen=True)
class LayerNorm(Op):
    """x standardised over the axes from ``axis`` to the last, times scale, plus bias when ``bias``.

    Inputs: x, scale, [bias]; scale and bias broadcast to x. Variance is the mean square deviation (no correction).
    """

    name: ClassVar[str] = "layer_norm"
    axis: int = -1
    epsilon: float = 1e-5
    bias: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        normal_axis(self.axis, x.rank)
        names = ("scale", "bias")[: 1 + self.bias]
        _need_inputs(types, names)
        for name, type_ in zip(names, types[1:], strict=True):
            if type_ is None or not _broadcasts_to(type_.shape, x.shape):
                raise InputError(f"{name} has shape {type_ and type_.shape}, needed one that broadcasts to {x.shape}")
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, scale = inputs[0], inputs[1]
        assert x is not None and scale is not None
        axes = tuple(range(normal_axis(self.axis, x.ndim), x.ndim))
        y = _standardised(x, axes, self.epsilon) * scale
        if self.bias:
            bias = inputs[2]
            assert bias is not None
            y = y + bias
        return (y.astype(x.dtype, copy=False),)


def _broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


@dataclass(frozen=True)
class BatchNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per channel (axis 1), with given statistics.

    Inputs: x (n, c, *spatial), scale, bias, mean, variance, each (c).
    """

    name: ClassVar[str] = "batch_norm"
    epsilon: float = 1e-5

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        _need_channel_vectors(x, types, ("scale", "bias", "mean", "variance"))
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, scale, bias, mean, variance = inputs
        assert x is not None and scale is not None and bias is not None and mean is not None and variance is not None
        factor = scale / np.sqrt(variance + self.epsilon)
        y = (x - _per_channel(mean, x.ndim)) * _per_channel(factor, x.ndim) + _per_channel(bias, x.ndim)
        return (y.astype(x.dtype, copy=False),)


@dataclass(frozen=True)
class InstanceNorm(Op):
    """x standardised over the spatial axes of every image and channel, times scale (c), plus bias (c).

    Inputs: x (n, c, *spatial), scale, bias.
    """

    name: ClassVar[str] = "instance_norm"
    epsilon: float = 1e-5

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = types[0]
        assert x is not None
        _need_channel_vectors(x, types, ("scale", "bias"))
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, scale, bias = inputs
        assert x is not None and scale is not None and bias is not None
        y = _standardised(x, tuple(range(2, x.ndim)), self.epsilon)
        return ((y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype, copy=False),)
