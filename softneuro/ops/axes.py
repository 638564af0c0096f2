"""Axis numbers as ONNX writes them (negative ones count from the end) made plain."""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.errors import InputError

__all__ = ["normal_axes", "normal_axis"]


def normal_axis(axis: int, rank: int) -> int:
    """The axis as a number from 0 to rank - 1. Raises InputError when it is out of range."""
    if not -rank <= axis < rank:
        raise InputError(f"axis is {axis}, needed one from {-rank} to {rank - 1} for an input of rank {rank}")
    return axis + rank if axis < 0 else axis


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes ascending, from 0 to rank - 1. Raises InputError when one is out of range or named twice."""
    found = tuple(sorted(normal_axis(int(axis), rank) for axis in axes))
    if len(set(found)) != len(found):
        raise InputError(f"axes are {tuple(axes)}, needed each axis at most once")
    return found
