"""Conditional code around values in registers: the two ways in and the merged values after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["conditional"]


def conditional(builder: Any, condition: Any, values: Sequence[Any],
                body: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Emit ``if condition: values = body(values)`` and return the values after it.

    ``body`` emits with the same builder and returns as many values; those it returns unchanged cost nothing.
    """
    before = builder.block
    taken, after = builder.append_basic_block("taken"), builder.append_basic_block("after")
    builder.cbranch(condition, taken, after)
    builder.position_at_end(taken)
    updated = list(body(list(values)))
    last = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    merged = []
    for old, new in zip(values, updated, strict=True):
        if old is new:
            merged.append(old)
            continue
        phi = builder.phi(old.type)
        phi.add_incoming(old, before)
        phi.add_incoming(new, last)
        merged.append(phi)
    return merged
