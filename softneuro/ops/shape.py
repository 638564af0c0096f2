"""Ops whose result depends on shapes and small known values only: most of them vanish once the shapes are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import DynamicShape, InputError
from softneuro.limits import in_force
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, known_value, tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["Constant", "ConstantOfShape", "Fill", "Range", "Shape", "Size"]


@dataclass(frozen=True)
class Constant(Op):
    """A small tensor whose row-major bytes are part of the op. No inputs."""

    name: ClassVar[str] = "constant"
    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: Array) -> Constant:
        """The op that makes this array."""
        return cls(DType.of(array.dtype), tuple(array.shape), array.tobytes())

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, self.shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (np.frombuffer(self.data, self.dtype.numpy).reshape(self.shape),)


@dataclass(frozen=True)
class Shape(Op):
    """The sizes of axes ``start`` to ``end`` (exclusive; clamped; negative from the back) as int64. Inputs: x."""

    name: ClassVar[str] = "shape"
    start: int = 0
    end: int | None = None

    def bind(self, types: Types, values: Values) -> Bound | None:
        x = tensor(types, 0, "tensor")
        return Bound(Constant.of(np.array(x.shape[self.start : self.end], np.int64)), ())

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        return (TensorType(DType.I64, (len(x.shape[self.start : self.end]),)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        return (np.array(x.shape[self.start : self.end], np.int64),)


@dataclass(frozen=True)
class Size(Op):
    """The number of elements as an int64 scalar. Inputs: x."""

    name: ClassVar[str] = "size"

    def bind(self, types: Types, values: Values) -> Bound | None:
        x = tensor(types, 0, "tensor")
        return Bound(Constant.of(np.array(x.size, np.int64)), ())

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(DType.I64, ()),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        return (np.array(x.size, np.int64),)


@dataclass(frozen=True)
class Fill(Op):
    """A tensor with one value everywhere. No inputs. Raises ResourceLimitError above the limits in force."""

    name: ClassVar[str] = "fill"
    dtype: DType
    shape: tuple[int, ...]
    value: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        type_ = TensorType(self.dtype, self.shape)
        in_force().check_tensor(type_)
        return (type_,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        self.infer(())
        return (np.full(self.shape, self.value, self.dtype.numpy),)


@dataclass(frozen=True)
class ConstantOfShape(Op):
    """One value in the shape that the input holds. Inputs: shape (int64). Binds to `Fill`."""

    name: ClassVar[str] = "constant_of_shape"
    dtype: DType
    value: float

    def _fill(self, types: Types, values: Values) -> Fill:
        shape = known_ints(types, values, 0, "a shape")
        if shape is None or any(size < 0 for size in shape):
            raise InputError(f"found shape {shape}, needed sizes of at least 0")
        return Fill(self.dtype, shape, self.value)

    def bind(self, types: Types, values: Values) -> Bound | None:
        return Bound(self._fill(types, values), ())

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return self._fill(types, ()).infer(())

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return self._fill([None if v is None else TensorType.of(v) for v in inputs], inputs).reference(())


@dataclass(frozen=True)
class Range(Op):
    """``start + i * delta`` for all i with a value before ``limit``. Inputs: start, limit, delta (scalars)."""

    name: ClassVar[str] = "range"

    def bind(self, types: Types, values: Values) -> Bound | None:
        known = [known_value(types, values, i, what) for i, what in enumerate(("a start", "a limit", "a delta"))]
        return Bound(Constant.of(self.reference(known)[0]), ())

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("the length of a range depends on its inputs' values, needed known ones")

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        start, limit, delta = (np.asarray(v).reshape(()) for v in inputs[:3])
        if delta == 0:
            raise InputError("the range has delta 0, needed another")
        is_integer = np.issubdtype(start.dtype, np.integer)
        if not is_integer and not all(math.isfinite(float(v)) for v in (start, limit, delta)):
            raise InputError(f"found a range from {start} to {limit} in steps of {delta}, needed finite numbers")
        span = int(limit) - int(start) if is_integer else float(limit) - float(start)
        steps = -(-span // int(delta)) if is_integer else math.ceil(span / float(delta))
        count = max(0, int(steps))
        in_force().check_tensor(TensorType(DType.of(start.dtype), (count,)))
        return ((start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype, copy=False),)
