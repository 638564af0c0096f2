"""The end of every matrix-product tile: its finished sums through the epilogue to memory, whole or at an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_at, store_at
from softneuro.codegen.finish import Kept, kept_as, store_finished
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes
from softneuro.ops.epilogue import Epilogue

__all__ = ["TileStore"]


@dataclass(frozen=True)
class TileStore:
    """Stores mr rows by nv vectors of float32 sums, given in row-major order; ``dtype``: what y and the residual are kept as."""

    target: Target
    mr: int
    nv: int
    epilogue: Epilogue
    dtype: str = "f32"

    @property
    def _lanes(self) -> int:
        return self.target.f32_lanes

    def store(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any, rows: Any, columns: Any,
              numbers: Any) -> None:
        """All of the tile, or the first rows and columns; ldy: bytes between rows of y and of residual.

        numbers: see `kept_as`.
        """
        whole = builder.and_(builder.icmp_signed("==", rows, I64(self.mr)),
                             builder.icmp_signed("==", columns, I64(self.nv * self._lanes)))
        kept = kept_as(builder, self.dtype, numbers, self._lanes, self.epilogue)
        with builder.if_else(whole) as (full, part):
            with full:
                self._store_full(builder, sums, y, ldy, residual, kept)
            with part:
                self._store_part(builder, sums, y, ldy, residual, rows, columns, kept)

    def _store_full(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any, kept: Kept) -> None:
        for i in range(self.mr):
            row = builder.mul(ldy, I64(i))
            for j in range(self.nv):
                place = builder.add(row, I64(j * self._lanes * kept.nbytes))
                store_finished(builder, self.target, self.epilogue, sums[i * self.nv + j], y, residual, place, None, kept)

    def _store_part(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any, rows: Any, columns: Any,
                    kept: Kept) -> None:
        """Through a buffer on the stack, row by row with masks: small code for the rare edge."""
        vector = ir.VectorType(F32, self._lanes)
        vector_bytes = 4 * self._lanes
        with builder.goto_entry_block():
            buffer = builder.bitcast(builder.alloca(ir.ArrayType(vector, len(sums))), I8.as_pointer())
        for index, value in enumerate(sums):
            store_at(builder, value, byte_offset(builder, buffer, index * vector_bytes))
        loop = CountedLoop(builder, rows, [])
        row = builder.mul(loop.index, ldy)
        for j in range(self.nv):
            before = j * self._lanes
            mask = first_lanes(builder, builder.sub(columns, I64(before)), self._lanes)
            slot = builder.add(builder.mul(loop.index, I64(self.nv * vector_bytes)), I64(j * vector_bytes))
            value = load_at(builder, byte_offset(builder, buffer, slot), vector)
            place = builder.add(row, I64(before * kept.nbytes))
            store_finished(builder, self.target, self.epilogue, value, y, residual, place, mask, kept)
        loop.end([])
