"""How sizes are rounded: to multiples, to tiles that are all nearly full, to cache lines."""

from __future__ import annotations

import math

from softneuro.codegen.conventions import CACHE_LINE

__all__ = ["balanced", "odd_lines", "round_up"]


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not less than ``count``."""
    return math.ceil(count / multiple) * multiple


def balanced(total: int, most: int) -> int:
    """The least tile size that needs no more tiles than size ``most`` does: the last tile is nearly full."""
    return math.ceil(total / math.ceil(total / most))


def odd_lines(nbytes: int) -> int:
    """At least ``nbytes``, as an odd number of cache lines: places so far apart do not meet in the same cache sets."""
    return (math.ceil(nbytes / CACHE_LINE) | 1) * CACHE_LINE
