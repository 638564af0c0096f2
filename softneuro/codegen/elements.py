"""What kernels that only move elements and the routines that call them agree on. Loads no compiler."""

from __future__ import annotations

__all__ = ["AXIS_WORDS", "ELEMENT_SIZES", "FEW", "pattern_word"]

ELEMENT_SIZES = (1, 2, 4, 8)
"""Bytes of the elements that can be moved."""

FEW = (2, 3, 4)
"""How many rows vector code interleaves, how often it repeats an element, and from how many it takes every first."""

AXIS_WORDS = 3
"""Words of an axis in a table: its size, source bytes and destination bytes from one element to the next."""


def pattern_word(element: bytes) -> int:
    """The int64 that holds an element of 1, 2, 4 or 8 bytes as often as it fits."""
    return int.from_bytes(element * (8 // len(element)), "little", signed=True)
