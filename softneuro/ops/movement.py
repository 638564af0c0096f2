"""Ops that reorder or repeat whole elements: Transpose, DepthToSpace, SpaceToDepth, BroadcastTo, Expand, Tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import known_ints, tensor
from softneuro.types import Array, Shape, TensorType

__all__ = ["BroadcastTo", "DepthToSpace", "Expand", "SpaceToDepth", "Tile", "Transpose"]


def _first(inputs: Values) -> Array:
    x = inputs[0]
    assert x is not None
    return x


@dataclass(frozen=True)
class Transpose(Op):
    """y's axis i is x's axis ``perm[i]``."""

    name: ClassVar[str] = "transpose"
    perm: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if sorted(self.perm) != list(range(x.rank)):
            raise InputError(f"found perm {self.perm}, needed each of the {x.rank} axes of {x} once")
        return (TensorType(x.dtype, tuple(x.shape[p] for p in self.perm)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (_first(inputs).transpose(self.perm),)


@dataclass(frozen=True)
class DepthToSpace(Op):
    """(n, c * block^2, h, w) to (n, c, h * block, w * block).

    mode: how the channel number splits, ``DCR`` (block row, block column, c) or ``CRD`` (c, block row, block column).
    """

    name: ClassVar[str] = "depth_to_space"
    block: int
    mode: str = "DCR"

    def split_shape(self, shape: Shape) -> Shape:
        """The input's shape with its channel axis split in three."""
        n, c, h, w = shape
        b = self.block
        return (n, b, b, c // (b * b), h, w) if self.mode == "DCR" else (n, c // (b * b), b, b, h, w)

    @property
    def perm(self) -> tuple[int, ...]:
        """From the split input (rank 6) to (n, c, h, block, w, block)."""
        return (0, 3, 4, 1, 5, 2) if self.mode == "DCR" else (0, 1, 4, 2, 5, 3)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if x.rank != 4 or x.shape[1] % self.block**2:
            raise InputError(f"found {x}, needed rank 4 with a multiple of {self.block**2} channels")
        n, c, h, w = x.shape
        return (TensorType(x.dtype, (n, c // self.block**2, h * self.block, w * self.block)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = _first(inputs)
        n, c, h, w = x.shape
        moved = x.reshape(self.split_shape(x.shape)).transpose(self.perm)
        return (moved.reshape(n, c // self.block**2, h * self.block, w * self.block),)


@dataclass(frozen=True)
class SpaceToDepth(Op):
    """(n, c, h * block, w * block) to (n, block^2 * c, h, w); channel order (block row, block column, c)."""

    name: ClassVar[str] = "space_to_depth"
    block: int

    def split_shape(self, shape: Shape) -> Shape:
        """The input's shape with both spatial axes split in two."""
        n, c, h, w = shape
        return (n, c, h // self.block, self.block, w // self.block, self.block)

    @property
    def perm(self) -> tuple[int, ...]:
        """From the split input (rank 6) to (n, block, block, c, h, w)."""
        return (0, 3, 5, 1, 2, 4)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if x.rank != 4 or x.shape[2] % self.block or x.shape[3] % self.block:
            raise InputError(f"found {x}, needed rank 4 with height and width multiples of {self.block}")
        n, c, h, w = x.shape
        return (TensorType(x.dtype, (n, c * self.block**2, h // self.block, w // self.block)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x = _first(inputs)
        n, c, h, w = x.shape
        moved = x.reshape(self.split_shape(x.shape)).transpose(self.perm)
        return (moved.reshape(n, c * self.block**2, h // self.block, w // self.block),)


@dataclass(frozen=True)
class BroadcastTo(Op):
    """x repeated along axes of size 1 and new leading axes until it has ``shape``."""

    name: ClassVar[str] = "broadcast_to"
    shape: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        padded = (1,) * (len(self.shape) - x.rank) + x.shape
        if len(padded) != len(self.shape) or any(a not in (1, b) for a, b in zip(padded, self.shape, strict=True)):
            raise InputError(f"found {x}, needed a shape that broadcasts to {self.shape}")
        return (TensorType(x.dtype, self.shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return (np.broadcast_to(_first(inputs), self.shape),)


@dataclass(frozen=True)
class Expand(Op):
    """Inputs: x, shape (int64). Both shapes broadcast against each other. Binds to `BroadcastTo`."""

    name: ClassVar[str] = "expand"

    def bind(self, types: Types, values: Values) -> Bound:
        x = tensor(types, 0, "tensor")
        shape = known_ints(types, values, 1, "shape values")
        if shape is None:
            raise InputError("found no shape, needed one at input 1")
        try:
            return Bound(BroadcastTo(tuple(np.broadcast_shapes(x.shape, shape))), (0,))
        except ValueError:
            raise InputError(f"found {x} and shape {shape}, needed two that broadcast") from None


@dataclass(frozen=True)
class Tile(Op):
    """x repeated ``repeats[i]`` times along each axis i. Inputs: x, and the repeats when the field is None."""

    name: ClassVar[str] = "tile"
    repeats: tuple[int, ...] | None = None

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.repeats is not None:
            return None
        repeats = known_ints(types, values, 1, "repeats")
        if repeats is None:
            raise InputError("found no repeats, needed them at input 1")
        return Bound(Tile(repeats), (0,))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = tensor(types, 0, "tensor")
        if self.repeats is None or len(self.repeats) != x.rank or min(self.repeats, default=0) < 0:
            raise InputError(f"found repeats {self.repeats}, needed {x.rank} counts, one for each axis of {x}")
        return (TensorType(x.dtype, tuple(d * r for d, r in zip(x.shape, self.repeats, strict=True))),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        assert self.repeats is not None
        return (np.tile(_first(inputs), self.repeats),)
