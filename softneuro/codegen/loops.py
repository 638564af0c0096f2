"""Loops over axes that are only known at run time, for kernels that move data of any rank."""

from __future__ import annotations

from numba.extending import register_jitable

from softneuro.codegen.elements import AXIS_WORDS
from softneuro.codegen.memory import load_i64

__all__ = ["axis_offsets"]


@register_jitable
def axis_offsets(table: int, axes: int, position: int) -> tuple[int, int]:
    """Byte offsets in source and destination of loop number ``position`` over the table's axes, outermost first."""
    source = 0
    destination = 0
    for i in range(axes):
        row = AXIS_WORDS * (axes - 1 - i)
        size = load_i64(table, row)
        following = position // size
        index = position - following * size
        source += index * load_i64(table, row + 1)
        destination += index * load_i64(table, row + 2)
        position = following
    return source, destination
