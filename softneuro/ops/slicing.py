"""Ops that take tensors apart and put them together: Concat, Split, Slice, StridedSlice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.axes import normal_axis
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, TensorType

__all__ = ["Concat", "Slice", "Split", "StridedSlice"]


@dataclass(frozen=True)
class Concat(Op):
    """The inputs one after the other along ``axis``."""

    name: ClassVar[str] = "concat"
    axis: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        parts = [tensor(types, i, "tensor") for i in range(max(1, len(types)))]
        first = parts[0]
        axis = normal_axis(self.axis, first.rank)
        for part in parts[1:]:
            others = [shape[:axis] + shape[axis + 1 :] for shape in (part.shape, first.shape)]
            if part.rank != first.rank or part.dtype is not first.dtype or others[0] != others[1]:
                raise InputError(f"found {part} beside {first}, needed the same but for the size of axis {axis}")
        total = sum(part.shape[axis] for part in parts)
        return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (np.concatenate([x for x in inputs if x is not None], axis=self.axis),)


def even_sizes(total: int, parts: int) -> tuple[int, ...]:
    """``total`` in ``parts`` of equal size, the last one smaller when it does not divide.

    Raises InputError when nothing would be left for the last part.
    """
    size = -(-total // parts)
    last = total - size * (parts - 1)
    if last < 0:
        raise InputError(f"found {total} elements for {parts} parts of {size}, needed at least {size * (parts - 1)}")
    return (size,) * (parts - 1) + (last,)


@dataclass(frozen=True)
class Split(Op):
    """x cut along ``axis`` into several outputs.

    sizes: elements of each output, or None: taken from input 1, or when that is absent too, ``parts`` even parts.
    """

    name: ClassVar[str] = "split"
    axis: int = 0
    sizes: tuple[int, ...] | None = None
    parts: int = 0

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.sizes is not None:
            return None
        x = tensor(types, 0, "tensor")
        sizes = known_ints(types, values, 1, "split sizes")
        if sizes is None:
            if self.parts < 1:
                raise InputError("found neither split sizes nor a number of parts, needed one of them")
            sizes = even_sizes(x.shape[normal_axis(self.axis, x.rank)], self.parts)
        return Bound(Split(self.axis, sizes), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        axis = normal_axis(self.axis, x.rank)
        if self.sizes is None or sum(self.sizes) != x.shape[axis] or min(self.sizes, default=0) < 0:
            raise InputError(f"found split sizes {self.sizes}, needed {x.shape[axis]} elements of axis {axis} in all")
        return tuple(TensorType(x.dtype, (*x.shape[:axis], s, *x.shape[axis + 1 :])) for s in self.sizes)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None and self.sizes is not None
        return tuple(np.split(x, np.cumsum(self.sizes)[:-1], axis=self.axis))


@dataclass(frozen=True)
class StridedSlice(Op):
    """``sizes[i]`` elements of each axis i: numbers ``starts[i] + j * steps[i]``; steps may be negative, never 0."""

    name: ClassVar[str] = "strided_slice"
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if not x.rank == len(self.starts) == len(self.steps) == len(self.sizes):
            found = f"starts {self.starts}, steps {self.steps}, sizes {self.sizes}"
            raise InputError(f"found {found}, needed {x.rank} of each for {x}")
        for axis, (start, step, size) in enumerate(zip(self.starts, self.steps, self.sizes, strict=True)):
            last = start + (size - 1) * step
            if size < 0 or (size and not (0 <= start < x.shape[axis] and 0 <= last < x.shape[axis])):
                raise InputError(f"found elements {start} to {last}, needed them in the {x.shape[axis]} of axis {axis}")
        return (TensorType(x.dtype, self.sizes),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = inputs[0]
        assert x is not None
        ranges = zip(self.starts, self.steps, self.sizes, strict=True)
        return (x[np.ix_(*(start + step * np.arange(size) for start, step, size in ranges))] if x.ndim else x,)


@dataclass(frozen=True)
class Slice(Op):
    """Inputs: x, starts, ends, optional axes and steps, as numpy's slices. Binds to `StridedSlice`."""

    name: ClassVar[str] = "slice"

    def bind(self, types: Types, values: Values) -> Bound:
        x = tensor(types, 0, "tensor")
        starts = known_ints(types, values, 1, "starts")
        ends = known_ints(types, values, 2, "ends")
        if starts is None or ends is None:
            raise InputError("found no starts or no ends, needed both")
        axes = known_ints(types, values, 3, "axes")
        steps = known_ints(types, values, 4, "steps")
        axes = tuple(range(len(starts))) if axes is None else axes
        steps = (1,) * len(starts) if steps is None else steps
        if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
            found = f"starts {starts}, ends {ends}, axes {axes}, steps {steps}"
            raise InputError(f"found {found}, needed as many of each and no step of 0")
        return Bound(_strided_slice(x, starts, ends, axes, steps), (0,))


def _strided_slice(x: TensorType, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int],
                   steps: Sequence[int]) -> StridedSlice:
    first, step, size = [0] * x.rank, [1] * x.rank, list(x.shape)
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        position = normal_axis(axis, x.rank)
        taken = range(*slice(start, end, stride).indices(x.shape[position]))
        first[position], step[position], size[position] = (taken.start if taken else 0), stride, len(taken)
    return StridedSlice(tuple(first), tuple(step), tuple(size))
