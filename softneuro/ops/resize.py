"""Resize: resampling along any axes, as ONNX defines it from opset 10 on.

Every mode is a linear map along each axis on its own, so an axis is described by a table of taps: for each output
position, input positions and weights. The reference and the routines share that table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, known_value, tensor
from softneuro.types import Array, Shape, TensorType

__all__ = ["AxisTaps", "Resize"]

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")


@dataclass(frozen=True)
class AxisTaps:
    """How one axis is resampled.

    positions: int64 (output size, taps), input elements. weights: float64 of the same shape, rows adding up to 1.
    outside: bool (output size), where the extrapolation value stands instead.
    """

    positions: Array
    weights: Array
    outside: Array

    @property
    def identity(self) -> bool:
        """Whether output element i is input element i, for all of the input that there is in the output."""
        taps = self.positions.shape[1] == 1 and not self.outside.any()
        return taps and bool((self.positions[:, 0] == np.arange(len(self.positions))).all())


@dataclass(frozen=True)
class Resize(Op):
    """Inputs: x, then until ``sizes`` and ``scales`` are both set: optional roi, scales, sizes.

    mode: nearest, linear, cubic (with coefficient ``cubic_a``). coordinates, nearest, policy, exclude_outside,
    extrapolation, antialias: ONNX's attributes coordinate_transformation_mode, nearest_mode,
    keep_aspect_ratio_policy, exclude_outside, extrapolation_value, antialias. axes: what roi, scales and sizes count
    (None: all axes); bound ops have one number for every axis (roi: all starts, then all ends).
    """

    name: ClassVar[str] = "resize"
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False
    axes: tuple[int, ...] | None = None
    policy: str = "stretch"
    sizes: tuple[int, ...] | None = None
    scales: tuple[float, ...] | None = None
    roi: tuple[float, ...] | None = None

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.sizes is not None and self.scales is not None:
            return None
        self._check_modes()
        x = tensor(types, 0, "tensor")
        axes = tuple(range(x.rank)) if self.axes is None else tuple(normal_axis(a, x.rank) for a in self.axes)
        roi = _floats(types, values, 1, "roi")
        scales = self.scales or _floats(types, values, 2, "scales")
        sizes = self.sizes or known_ints(types, values, 3, "sizes")
        if bool(scales) == bool(sizes):
            raise InputError(f"found scales {scales or ()} and sizes {sizes or ()}, needed exactly one of them")
        if len(scales or sizes or ()) != len(axes):
            raise InputError(f"found {scales or sizes}, needed one number for each of the axes {axes}")
        new_sizes, new_scales = (
            _by_scales(x.shape, axes, scales) if scales else self._by_sizes(x.shape, axes, sizes or ()))
        bound = replace(self, axes=None, policy="stretch", sizes=new_sizes, scales=new_scales, roi=None)
        if self.coordinates == "tf_crop_and_resize":
            bound = replace(bound, roi=_full_roi(x.rank, axes, roi))
        return Bound(bound, (0,))

    def _check_modes(self) -> None:
        for value, known in ((self.mode, _MODES), (self.coordinates, _COORDINATES), (self.nearest, _NEAREST),
                             (self.policy, _POLICIES)):
            if value not in known:
                raise InputError(f"found mode {value!r}, needed one of {', '.join(known)}")
        if self.antialias and self.mode == "nearest":
            raise InputError("found antialias with mode nearest, needed linear or cubic")

    def _by_sizes(self, shape: Shape, axes: Sequence[int], sizes: Sequence[int]) -> tuple[Shape, tuple[float, ...]]:
        new_sizes, new_scales = list(shape), [1.0] * len(shape)
        if any(shape[a] == 0 for a in axes):
            raise InputError(f"found sizes {tuple(sizes)} for the empty shape {shape}, needed scales")
        for axis, size in zip(axes, sizes, strict=True):
            new_sizes[axis], new_scales[axis] = size, size / shape[axis]
        if self.policy != "stretch":
            extreme = min if self.policy == "not_larger" else max
            scale = extreme(new_scales[a] for a in axes)
            for axis in axes:
                new_sizes[axis], new_scales[axis] = int(scale * shape[axis] + 0.5), scale
        return tuple(new_sizes), tuple(new_scales)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        self._check_modes()
        if self.sizes is None or self.scales is None or not len(self.sizes) == len(self.scales) == x.rank:
            raise InputError(f"found sizes {self.sizes} and scales {self.scales}, needed {x.rank} of each")
        if min(self.scales, default=1.0) <= 0 or min(self.sizes, default=0) < 0:
            raise InputError(f"found sizes {self.sizes} and scales {self.scales}, needed positive numbers")
        if any(size and not old for size, old in zip(self.sizes, x.shape, strict=True)):
            raise InputError(f"found {x} to resize to {self.sizes}, needed elements to resize")
        return (TensorType(x.dtype, self.sizes),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None and self.sizes is not None
        y = x if self.mode == "nearest" else x.astype(np.float64)
        for axis, old in enumerate(x.shape):
            taps = self.taps(axis, old)
            if taps.identity and self.sizes[axis] == old:
                continue
            trailing = (1,) * (x.ndim - axis - 1)
            if self.mode == "nearest":
                y = np.take(y, taps.positions[:, 0], axis=axis)
            else:
                picked = np.take(y, taps.positions, axis=axis)
                y = (picked * taps.weights.reshape(*taps.weights.shape, *trailing)).sum(axis=axis + 1)
            outside = taps.outside.reshape(-1, *trailing)
            y = np.where(outside, np.asarray(self.extrapolation).astype(y.dtype), y)
        return (_cast(y, x.dtype),)

    def taps(self, axis: int, size: int) -> AxisTaps:
        """How ``axis`` with ``size`` input elements is resampled. The op must be bound."""
        assert self.sizes is not None and self.scales is not None
        count, scale = self.sizes[axis], self.scales[axis]
        unmoved = self.roi is None or (self.roi[axis] == 0.0 and self.roi[axis + len(self.sizes)] == 1.0)
        if math.isclose(scale, 1.0) and count == size and unmoved:
            return AxisTaps(np.arange(count)[:, None], np.ones((count, 1)), np.zeros(count, np.bool_))
        x = self._coordinates(axis, size)
        outside = np.zeros(count, np.bool_)
        if self.coordinates == "tf_crop_and_resize":
            outside = (x < 0) | (x > size - 1)
        if self.mode == "nearest":
            position = np.clip(_rounded(x, self.nearest), 0, size - 1)
            return AxisTaps(position[:, None], np.ones((count, 1)), outside)
        positions, weights = self._window(x, scale)
        if self.exclude_outside:
            weights = np.where((positions >= 0) & (positions < size), weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        return AxisTaps(np.clip(positions, 0, max(0, size - 1)), weights / np.where(total == 0, 1.0, total), outside)

    def _coordinates(self, axis: int, size: int) -> Array:
        """Where each output position lies in the input, as ONNX's coordinate_transformation_mode says."""
        assert self.sizes is not None and self.scales is not None
        y = np.arange(self.sizes[axis], dtype=np.float64)
        scale = self.scales[axis]
        length = scale * size  # may have a fraction, as ONNX has it
        if self.coordinates == "asymmetric":
            return y / scale
        if self.coordinates == "align_corners":
            return y * 0.0 if length == 1 else y * (size - 1) / (length - 1)
        if self.coordinates == "tf_crop_and_resize":
            assert self.roi is not None
            start, end = self.roi[axis], self.roi[axis + len(self.sizes)]
            extent = (end - start) * (size - 1)
            return start * (size - 1) + (y * 0.0 + extent / 2 if length == 1 else y * extent / (length - 1))
        if self.coordinates == "pytorch_half_pixel" and length == 1:
            return y * 0.0 - 0.5
        shift = 0.0
        if self.coordinates == "half_pixel_symmetric":
            shift = size / 2 * (1 - self.sizes[axis] / length)
        return shift + (y + 0.5) / scale - 0.5

    def _window(self, x: Array, scale: float) -> tuple[Array, Array]:
        """Input positions (which may lie outside) under the filter at each coordinate, and the filter's values."""
        shrink = min(scale, 1.0) if self.antialias else 1.0
        reach = math.ceil((1 if self.mode == "linear" else 2) / shrink)
        positions = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
        distance = np.abs(positions - x[:, None]) * shrink
        return positions, np.maximum(0.0, 1.0 - distance) if self.mode == "linear" else _cubic(distance, self.cubic_a)


def _floats(types: Types, values: Values, position: int, what: str) -> tuple[float, ...] | None:
    value = known_value(types, values, position, what)
    return None if value is None else tuple(float(v) for v in value.reshape(-1))


def _by_scales(shape: Shape, axes: Sequence[int], scales: Sequence[float]) -> tuple[Shape, tuple[float, ...]]:
    """Sizes rounded down in float32, as ONNX's shape inference has it: 10 x 0.7 is 7."""
    new_sizes, new_scales = list(shape), [1.0] * len(shape)
    for axis, scale in zip(axes, scales, strict=True):
        new_sizes[axis], new_scales[axis] = int(np.floor(np.float32(shape[axis]) * np.float32(scale))), scale
    return tuple(new_sizes), tuple(new_scales)


def _full_roi(rank: int, axes: Sequence[int], roi: Sequence[float] | None) -> tuple[float, ...]:
    if roi is None or len(roi) != 2 * len(axes):
        raise InputError(f"found roi {roi}, needed {2 * len(axes)} numbers for tf_crop_and_resize")
    full = [0.0] * rank + [1.0] * rank
    for i, axis in enumerate(axes):
        full[axis], full[rank + axis] = roi[i], roi[len(axes) + i]
    return tuple(full)


def _rounded(x: Array, mode: str) -> Array:
    rounded = {"round_prefer_floor": np.ceil(x - 0.5), "round_prefer_ceil": np.floor(x + 0.5), "floor": np.floor(x),
               "ceil": np.ceil(x)}[mode]
    return rounded.astype(np.int64)


def _cubic(distance: Array, a: float) -> Array:
    """The convolution kernel of Keys, "Cubic convolution interpolation" (1981), with free coefficient ``a``."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _cast(y: Array, dtype: np.dtype[Any]) -> Array:
    """To the input's type; integers are rounded and kept within their range."""
    if np.issubdtype(dtype, np.integer) and y.dtype != dtype:
        limits = np.iinfo(dtype)
        return np.clip(np.round(y), limits.min, limits.max).astype(dtype)
    return y.astype(dtype, copy=False)
