"""Ops that only rename the shape of a row-major tensor: no element moves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axes
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "View"]


@dataclass(frozen=True)
class View(Op):
    """The elements of x in row-major order as a tensor of the given shape. Inputs: x."""

    name: ClassVar[str] = "view"
    shape: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if x.size != math.prod(self.shape):
            raise InputError(
                f"found shape {x.shape} of {x.size} elements, needed {math.prod(self.shape)} for shape {self.shape}"
            )
        return (TensorType(x.dtype, self.shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        return (np.reshape(x, self.shape),)


class _ViewForm(Op):
    """Base of the ops that are a `View` once the shapes (and the values of the input that holds them) are known."""

    def target(self, types: Types, values: Values) -> Shape:
        """The shape of the result. Raises InputError when the input does not fit or a value is not known."""
        raise NotImplementedError(self.name)

    def bind(self, types: Types, values: Values) -> Bound | None:
        return Bound(View(self.target(types, values)), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return View(self.target(types, ())).infer(types)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        types = [None if value is None else TensorType.of(value) for value in inputs]
        return View(self.target(types, inputs)).reference(inputs)


@dataclass(frozen=True)
class Reshape(_ViewForm):
    """Inputs: x, shape (int64; one -1 is worked out, 0 copies the size of x's axis unless ``allowzero``)."""

    name: ClassVar[str] = "reshape"
    allowzero: bool = False

    def target(self, types: Types, values: Values) -> Shape:
        x, wanted = tensor(types, 0, "tensor"), known_ints(types, values, 1, "a shape")
        if wanted is None:
            raise InputError("found no shape, needed one at input 1")
        sizes = list(wanted)
        for axis, size in enumerate(wanted):
            if size == 0 and not self.allowzero:
                if axis >= x.rank:
                    raise InputError(
                        f"found shape {wanted} with 0 for axis {axis}, needed one of the {x.rank} axes of {x} to copy"
                    )
                sizes[axis] = x.shape[axis]
        if any(size < -1 for size in sizes) or sizes.count(-1) > 1:
            raise InputError(f"found shape {wanted}, needed sizes of at least 0 and at most one -1")
        if -1 in sizes:
            rest = -math.prod(sizes)
            if rest == 0 or x.size % rest:
                raise InputError(f"found {x}, needed elements that divide into shape {wanted}")
            sizes[sizes.index(-1)] = x.size // rest
        return tuple(sizes)


@dataclass(frozen=True)
class Flatten(_ViewForm):
    """A matrix: axes before ``axis`` (0 to rank, or negative) become its rows, the others its columns. Inputs: x."""

    name: ClassVar[str] = "flatten"
    axis: int = 1

    def target(self, types: Types, values: Values) -> Shape:
        x = tensor(types, 0, "tensor")
        if not -x.rank <= self.axis <= x.rank:
            raise InputError(f"axis is {self.axis}, needed one from {-x.rank} to {x.rank} for {x}")
        axis = self.axis + x.rank if self.axis < 0 else self.axis
        return (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@dataclass(frozen=True)
class Squeeze(_ViewForm):
    """Without axes of size 1: the named ones, or all when neither the field nor an input names any.

    Inputs: x, [axes] (when the field is None).
    """

    name: ClassVar[str] = "squeeze"
    axes: tuple[int, ...] | None = None

    def target(self, types: Types, values: Values) -> Shape:
        x = tensor(types, 0, "tensor")
        named = known_ints(types, values, 1, "axes") if self.axes is None else self.axes
        if named is None:
            return tuple(size for size in x.shape if size != 1)
        axes = normal_axes(named, x.rank)
        for axis in axes:
            if x.shape[axis] != 1:
                raise InputError(f"found {x.shape[axis]} elements on axis {axis} of {x}, needed 1 to squeeze it")
        return tuple(size for axis, size in enumerate(x.shape) if axis not in axes)


@dataclass(frozen=True)
class Unsqueeze(_ViewForm):
    """With axes of size 1 inserted at positions counted in the result. Inputs: x, [axes] (when the field is None)."""

    name: ClassVar[str] = "unsqueeze"
    axes: tuple[int, ...] | None = None

    def target(self, types: Types, values: Values) -> Shape:
        x = tensor(types, 0, "tensor")
        named = known_ints(types, values, 1, "axes") if self.axes is None else self.axes
        if named is None:
            raise InputError("found no axes, needed them at input 1")
        rank = x.rank + len(named)
        axes = normal_axes(named, rank)
        sizes = iter(x.shape)
        return tuple(1 if axis in axes else next(sizes) for axis in range(rank))


@dataclass(frozen=True)
class Identity(Op):
    """The input itself: a tensor, a sequence or an optional. Inputs: x. Binds to `View` when it is a plain tensor."""

    name: ClassVar[str] = "identity"

    def bind(self, types: Types, values: Values) -> Bound | None:
        x = types[0]
        return None if x is None or x.dtype is DType.OTHER else Bound(View(x.shape), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (tensor(types, 0, "tensor"),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (inputs[0],)  # type: ignore[return-value]  # an empty optional is None and stays so
