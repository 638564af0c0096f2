"""The rows of x that a tile of output pixels reads under one tap, found through a table of offsets."""

from __future__ import annotations

from typing import Any

from softneuro.codegen.emit import I64, byte_offset, load_at
from softneuro.codegen.vector import I32

__all__ = ["tap_rows", "vectors_at"]


def tap_rows(builder: Any, mr: int, x: Any, zero: Any, table: Any) -> list[Any]:
    """Byte pointers to mr rows: int32 offsets at ``table`` from the address ``x``, or the row at ``zero`` for negative ones."""
    rows = []
    for i in range(mr):
        offset = builder.sext(load_at(builder, byte_offset(builder, table, 4 * i), I32), I64)
        inside = builder.icmp_signed(">=", offset, I64(0))
        rows.append(byte_offset(builder, builder.select(inside, builder.add(x, offset), zero), 0))
    return rows


def vectors_at(builder: Any, pointer: Any, vector: Any, count: int) -> list[Any]:
    """``count`` vectors of 4-byte elements one after the other at a byte pointer."""
    return [load_at(builder, byte_offset(builder, pointer, 4 * vector.count * j), vector) for j in range(count)]
