"""Sizes that may lie anywhere in a range, written ``224..640``, and those that stand for the range in tuning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from softneuro.errors import InputError
from softneuro.types import Shape

__all__ = ["RangedShapes", "Size", "has_ranges", "representatives", "sizes_text"]

Size: TypeAlias = int | tuple[int, int]
"""A size, or the least and the largest of a range."""
RangedShapes: TypeAlias = Mapping[str, Sequence[Size]]


def has_ranges(shapes: RangedShapes) -> bool:
    """Whether any size is a range."""
    return any(not _is_number(size) for sizes in shapes.values() for size in sizes)


def representatives(shapes: RangedShapes) -> tuple[Mapping[str, Shape], ...]:
    """The sets of sizes to tune at: the least of all ranges, their middles, the largest; one set where there is no range.

    All ranges move together, so dimensions that must agree do. The middle is geometric, as times grow by factors, and a
    multiple of the power of two that both ends are multiples of, since nets that halve and double need such sizes.

    Raises InputError for a range that is not two sizes of 1 or more in order.
    """
    ends = {name: [_ends(name, size) for size in sizes] for name, sizes in shapes.items()}
    sets = [{name: tuple(place[i] for place in places) for name, places in ends.items()} for i in range(3)]
    return tuple(chosen for i, chosen in enumerate(sets) if chosen not in sets[:i])


def sizes_text(sizes: Sequence[Size]) -> str:
    """``1x3x224..640x224..640``, as on the command line."""
    return "x".join(str(size) if isinstance(size, int) else f"{size[0]}..{size[1]}" for size in sizes)


def _is_number(size: Size) -> bool:
    return not isinstance(size, Sequence)


def _ends(name: str, size: Size) -> tuple[int, int, int]:
    """Least, middle and largest."""
    if not isinstance(size, Sequence):
        return (int(size),) * 3
    if len(size) != 2 or not 1 <= size[0] <= size[1]:
        raise InputError(f"input {name!r}: found the range {tuple(size)}, needed two sizes of 1 or more, the least first")
    least, largest = map(int, size)
    step = math.gcd(least, largest)
    step &= -step
    middle = step * round(math.sqrt(least * largest) / step)
    return least, min(max(middle, least), largest), largest
