"""The matrix-product tile of float32 or bfloat16: mr rows by nv vectors of accumulators in registers, and its epilogue."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, micro_kernel, prefetch_line
from softneuro.codegen.operands import Operands
from softneuro.codegen.products import add_step, repeat_steps, weights_at
from softneuro.codegen.tap_rows import tap_rows, vectors_at
from softneuro.codegen.target import Target
from softneuro.codegen.tile_store import TileStore
from softneuro.codegen.vector import F32
from softneuro.ops.epilogue import Epilogue

__all__ = ["gemm_tile"]


def gemm_tile(target: Target, mr: int, nv: int, epilogue: str, operands: Operands | None = None, kept: str = "f32",
              odd: bool = False) -> Any:
    """The intrinsic ``tile(taps, steps, x, zero, offsets, w, ahead, bias, y, ldy, residual, rows, columns, numbers)``.

    Row i of the tile is ``sum over t < taps, k < steps of x[offsets[t][i]][k] * w[t][k][:]``, plus bias,
    through the epilogue, stored at ``y + i * ldy``.

    operands: what x and w are kept as, None for float32; they say what a step is. odd: rows end with half a step.
    kept: what y and residual are kept as (see `TileStore`).

    offsets: int32 [taps][mr], byte offsets from ``x``, or negative for a row of ``zero`` (as long as one of x).
    w: float32 or bfloat16 [taps][steps][nv * lanes], in pairs [taps][steps][nv * lanes][2]. bias: nv * lanes float32.
    ahead: address of memory to prefetch, one cache line per step of k. ldy: bytes between rows of y and of residual (same
    shape as y). rows, columns: how much of the tile is stored; the rest is computed and dropped, and every offset
    must be readable all the same. taps and steps are at least 1. numbers: see `kept_as`.
    """
    tile = _Tile(target, mr, nv, operands or Operands(target), odd)
    end = TileStore(target, mr, nv, Epilogue.parse(epilogue), kept)

    def body(builder: Any, args: list[Any]) -> None:
        taps, steps, x, zero, offsets, w, ahead, bias, *place = args
        end.store(builder, tile.sums(builder, taps, steps, x, zero, offsets, w, ahead, bias), *place)

    return micro_kernel(f"gemm_tile_{mr}x{nv}", 14, body)


@dataclass(frozen=True)
class _Tile:
    """The emitters of one size of tile; sums are in row-major order."""

    target: Target
    mr: int
    nv: int
    operands: Operands
    odd: bool

    def sums(self, builder: Any, taps: Any, steps: Any, x: Any, zero: Any, offsets: Any, w: Any, ahead: Any,
             bias: Any) -> list[Any]:
        """All products over taps and steps, and the bias."""
        pointers = [builder.inttoptr(address, I8.as_pointer()) for address in (w, ahead)]
        biases = vectors_at(builder, bias, ir.VectorType(F32, self.target.f32_lanes), self.nv)
        outer = CountedLoop(builder, taps, [*pointers, *biases * self.mr])
        rows = tap_rows(builder, self.mr, x, zero, byte_offset(builder, offsets, builder.mul(outer.index, I64(4 * self.mr))))

        carried = repeat_steps(builder, steps, self.odd, outer.carried, functools.partial(self._step, builder, rows))
        outer.end(carried)
        return list(outer.carried[2:])

    def _step(self, builder: Any, rows: list[Any], index: Any, carried: list[Any], half: bool) -> list[Any]:
        """Step ``index``: the pointers to weights and to what is prefetched, and the sums."""
        weights, line, *sums = carried
        width = self.operands.vector_bytes
        vectors = [weights_at(builder, self.operands, byte_offset(builder, weights, j * width)) for j in range(self.nv)]
        prefetch_line(builder, line)
        offset = builder.mul(index, I64(self.operands.x_bytes))
        places = (byte_offset(builder, row, offset) for row in rows)
        sums = add_step(builder, self.operands, places, vectors, sums, half)
        return [byte_offset(builder, weights, self.nv * width), byte_offset(builder, line, CACHE_LINE), *sums]
