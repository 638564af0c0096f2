"""Convolution and pooling whose pads keep the spatial sizes: static pads follow once the input's sizes are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from softneuro.errors import InputError
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.conv import Conv
from softneuro.ops.linear import need_windows
from softneuro.ops.parameters import tensor
from softneuro.ops.pool import Pool, PoolKind
from softneuro.types import Array, TensorType

__all__ = ["SameConv", "SamePool", "same_pads"]


def same_pads(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *, upper: bool
) -> tuple[int, ...]:
    """Pads (beginnings, then ends) for ceil(size / stride) positions; an odd one goes to the end when ``upper``."""
    totals = []
    for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        positions = -(-size // stride)
        totals.append(max(0, (positions - 1) * stride + (taps - 1) * dilation + 1 - size))
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*smaller, *larger) if upper else (*larger, *smaller)


class _SamePadded(Op):
    """Base: everything goes through the static form."""

    def static(self, types: Types) -> Op:
        """The op with its pads."""
        raise NotImplementedError(self.name)

    def bind(self, types: Types, values: Values) -> Bound | None:
        return Bound(self.static(types), tuple(range(len(types))))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return self.static(types).infer(types)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return self.static([None if value is None else TensorType.of(value) for value in inputs]).reference(inputs)

    def macs(self, types: Types) -> int:
        return self.static(types).macs(types)


@dataclass(frozen=True)
class SameConv(_SamePadded):
    """A `Conv` with `same_pads`. Inputs: x, weights, bias when ``bias``."""

    name: ClassVar[str] = "same_conv"
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    bias: bool = False
    upper: bool = True

    def static(self, types: Types) -> Op:
        x, w = tensor(types, 0, "tensor"), tensor(types, 1, "weights")
        if not x.rank == w.rank == len(self.strides) + 2:
            raise InputError(f"input is {x} and weights {w}, needed rank {len(self.strides) + 2} for both")
        need_windows(len(self.strides), self.strides, (0,) * 2 * len(self.strides), self.dilations)
        pads = same_pads(x.shape[2:], w.shape[2:], self.strides, self.dilations, upper=self.upper)
        return Conv(self.strides, pads, self.dilations, self.groups, self.bias)


@dataclass(frozen=True)
class SamePool(_SamePadded):
    """A `Pool` with `same_pads`. Inputs: x."""

    name: ClassVar[str] = "same_pool"
    kind: PoolKind
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    count_include_pad: bool = False
    upper: bool = True

    def static(self, types: Types) -> Op:
        x = tensor(types, 0, "tensor")
        if x.rank != len(self.kernel) + 2:
            raise InputError(f"input is {x}, needed rank {len(self.kernel) + 2}")
        need_windows(len(self.kernel), self.strides, (0,) * 2 * len(self.kernel), self.dilations)
        pads = same_pads(x.shape[2:], self.kernel, self.strides, self.dilations, upper=self.upper)
        return Pool(self.kind, self.kernel, self.strides, pads, self.dilations, False, self.count_include_pad)
