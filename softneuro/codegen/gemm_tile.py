"""The float32 matrix-product tile: mr rows by nv vectors of accumulators in registers, and its epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import (
    I8,
    I64,
    CountedLoop,
    byte_offset,
    load_at,
    micro_kernel,
    prefetch_line,
    store_at,
)
from softneuro.codegen.finish import store_finished
from softneuro.codegen.products import add_products
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, first_lanes
from softneuro.ops.epilogue import Epilogue

__all__ = ["gemm_tile"]


def gemm_tile(target: Target, mr: int, nv: int, epilogue: str) -> Any:
    """The intrinsic ``tile(taps, depth, x, zero, offsets, w, ahead, bias, y, ldy, residual, rows, columns)``.

    Row i of the tile is ``sum over t < taps, k < depth of x[offsets[t][i] + 4 k] * w[t][k][:]``, plus bias,
    through the epilogue, stored at ``y + i * ldy``.

    offsets: int32 [taps][mr], byte offsets from ``x``, or negative for a row of ``zero`` (depth zeros).
    w: float32 [taps][depth][nv * lanes]. bias: nv * lanes floats. ahead: address of memory to prefetch, one cache
    line per step of k. ldy: bytes between rows of y and of residual (same shape as y). rows, columns: how much of
    the tile is stored; the rest is computed and dropped, and every offset must be readable all the same.
    taps and depth are at least 1.
    """
    tile = _Tile(target, mr, nv, Epilogue.parse(epilogue))

    def body(builder: Any, args: list[Any]) -> None:
        taps, depth, x, zero, offsets, w, ahead, bias, *place = args
        tile.store(builder, tile.sums(builder, taps, depth, x, zero, offsets, w, ahead, bias), *place)

    return micro_kernel(f"gemm_tile_{mr}x{nv}", 13, body)


@dataclass(frozen=True)
class _Tile:
    """The emitters of one size of tile; sums are in row-major order."""

    target: Target
    mr: int
    nv: int
    epilogue: Epilogue

    @property
    def _vector(self) -> ir.Type:
        return ir.VectorType(F32, self.target.f32_lanes)

    @property
    def _vector_bytes(self) -> int:
        return 4 * self.target.f32_lanes

    def _row(self, builder: Any, pointer: Any) -> list[Any]:
        """The nv vectors at a byte pointer."""
        return [load_at(builder, byte_offset(builder, pointer, j * self._vector_bytes), self._vector)
                for j in range(self.nv)]

    def sums(self, builder: Any, taps: Any, depth: Any, x: Any, zero: Any, offsets: Any, w: Any, ahead: Any,
             bias: Any) -> list[Any]:
        """All products over taps and depth, and the bias."""
        pointers = [builder.inttoptr(address, I8.as_pointer()) for address in (w, ahead)]
        outer = CountedLoop(builder, taps, [*pointers, *self._row(builder, bias) * self.mr])
        rows = self._tap_rows(builder, x, zero, byte_offset(builder, offsets, builder.mul(outer.index, I64(4 * self.mr))))
        inner = CountedLoop(builder, depth, outer.carried)
        weights, line, *sums = inner.carried
        vectors = self._row(builder, weights)
        prefetch_line(builder, line)
        step = builder.shl(inner.index, I64(2))
        sums = add_products(builder, self.target, (byte_offset(builder, row, step) for row in rows), vectors, sums)
        inner.end([byte_offset(builder, weights, self.nv * self._vector_bytes), byte_offset(builder, line, CACHE_LINE),
                   *sums])
        outer.end(inner.carried)
        return list(outer.carried[2:])

    def _tap_rows(self, builder: Any, x: Any, zero: Any, table: Any) -> list[Any]:
        """Byte pointers to the input rows of a tap, from its part of the offset table."""
        rows = []
        for i in range(self.mr):
            offset = builder.sext(load_at(builder, byte_offset(builder, table, 4 * i), I32), I64)
            inside = builder.icmp_signed(">=", offset, I64(0))
            rows.append(byte_offset(builder, builder.select(inside, builder.add(x, offset), zero), 0))
        return rows

    def store(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any, rows: Any, columns: Any) -> None:
        """Through the epilogue to memory: all of the tile, or rows and columns at the edge."""
        whole = builder.and_(builder.icmp_signed("==", rows, I64(self.mr)),
                             builder.icmp_signed("==", columns, I64(self.nv * self.target.f32_lanes)))
        with builder.if_else(whole) as (full, part):
            with full:
                self._store_full(builder, sums, y, ldy, residual)
            with part:
                self._store_part(builder, sums, y, ldy, residual, rows, columns)

    def _store_full(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any) -> None:
        for i in range(self.mr):
            row = builder.mul(ldy, I64(i))
            for j in range(self.nv):
                place = builder.add(row, I64(j * self._vector_bytes))
                store_finished(builder, self.target, self.epilogue, sums[i * self.nv + j], y, residual, place)

    def _store_part(self, builder: Any, sums: list[Any], y: Any, ldy: Any, residual: Any, rows: Any,
                    columns: Any) -> None:
        """Through a buffer on the stack, row by row with masks: small code for the rare edge."""
        with builder.goto_entry_block():
            buffer = builder.bitcast(builder.alloca(ir.ArrayType(self._vector, len(sums))), I8.as_pointer())
        for index, value in enumerate(sums):
            store_at(builder, value, byte_offset(builder, buffer, index * self._vector_bytes))
        loop = CountedLoop(builder, rows, [])
        row = builder.mul(loop.index, ldy)
        for j in range(self.nv):
            lanes_before, bytes_before = j * self.target.f32_lanes, j * self._vector_bytes
            mask = first_lanes(builder, builder.sub(columns, I64(lanes_before)), self.target.f32_lanes)
            slot = builder.add(builder.mul(loop.index, I64(self.nv * self._vector_bytes)), I64(bytes_before))
            value = load_at(builder, byte_offset(builder, buffer, slot), self._vector)
            store_finished(builder, self.target, self.epilogue, value, y, residual,
                           builder.add(row, I64(bytes_before)), mask)
        loop.end([])
