"""The tile that multiplies 8-bit integers: mr rows by nv vectors of int32 sums in registers.

`IntegerSums` makes the sums; what becomes of them is a function that `store_cells` calls for every vector, so that other
layers can scale and round on the way to memory. `integer_tile` stores them as they are, corrected for zero points.
"""

from __future__ import annotations

from collections.abc import Callable
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
    store_lanes,
)
from softneuro.codegen.integer_forms import IntegerForm
from softneuro.codegen.integer_products import add_form_products
from softneuro.codegen.tap_rows import tap_rows, vectors_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, first_lanes, splat_value

__all__ = ["IntegerSums", "StoreCell", "integer_tile", "store_cells"]

StoreCell = Callable[[Any, Any, Any, int, Any], None]
"""store(builder, sums, row, j, mask): what becomes of vector j of a row (int64) of the tile; mask: its lanes, None for all."""

_I16 = ir.IntType(16)


@dataclass(frozen=True)
class IntegerSums:
    """The emitter of one size of tile; sums are vectors in row-major order."""

    target: Target
    form: IntegerForm
    mr: int
    nv: int

    @property
    def vector(self) -> ir.Type:
        """The type of a vector of sums."""
        return ir.VectorType(I32, self.target.f32_lanes)

    def row(self, builder: Any, pointer: Any) -> list[Any]:
        """The nv vectors of int32 at a byte pointer."""
        return vectors_at(builder, pointer, self.vector, self.nv)

    def add(self, builder: Any, taps: Any, steps: Any, x: Any, zero: Any, offsets: Any, w: Any, ahead: Any,
            sums: list[Any]) -> list[Any]:
        """``sums`` plus the products over taps and steps, both at least 1.

        offsets: int32 [taps][mr], byte offsets from ``x`` to the rows, or negative for the row at ``zero``. w: the panel,
        [taps][steps][nv * lanes][group]. ahead: address of memory to prefetch, one cache line
        in every step.
        """
        pointers = [builder.inttoptr(address, I8.as_pointer()) for address in (w, ahead)]
        outer = CountedLoop(builder, taps, [*pointers, *sums])
        rows = tap_rows(builder, self.mr, x, zero, byte_offset(builder, offsets, builder.mul(outer.index, I64(4 * self.mr))))
        inner = CountedLoop(builder, steps, outer.carried)
        weights, line, *sums = inner.carried
        size = self.target.f32_lanes * self.form.step_bytes
        vectors = [self._weights(builder, byte_offset(builder, weights, j * size)) for j in range(self.nv)]
        prefetch_line(builder, line)
        place = builder.mul(inner.index, I64(self.form.step_bytes))
        updated: list[Any] = []
        for row in rows:
            factor = self._factor(builder, byte_offset(builder, row, place))
            updated += [add_form_products(builder, self.form, sums[len(updated) + j], factor, v) for j, v in enumerate(vectors)]
        inner.end([byte_offset(builder, weights, self.nv * size), byte_offset(builder, line, CACHE_LINE), *updated])
        outer.end(inner.carried)
        return list(outer.carried[2:])

    def _weights(self, builder: Any, pointer: Any) -> Any:
        """A step of one vector of columns, as the form multiplies it."""
        if self.form.group > 1:
            return load_at(builder, pointer, self.vector)
        narrow = load_at(builder, pointer, ir.VectorType(_I16, self.target.f32_lanes), 2)
        return builder.sext(narrow, self.vector)

    def _factor(self, builder: Any, pointer: Any) -> Any:
        """A step of a row, in every lane."""
        lanes = self.target.f32_lanes
        if self.form.group > 1:
            return splat_value(builder, load_at(builder, pointer, I32, self.form.bytes), lanes)
        return builder.sext(splat_value(builder, load_at(builder, pointer, _I16, 2), lanes), self.vector)


def store_cells(builder: Any, sums: list[Any], nv: int, rows: Any, columns: Any, store: StoreCell) -> None:
    """Call ``store`` for each vector of a tile: for all of it, or for the first rows and columns (int64) at the edge.

    At the edge the sums go through a buffer on the stack, row by row with masks: small code for what is rare.
    """
    vector = sums[0].type
    lanes, mr = vector.count, len(sums) // nv
    whole = builder.and_(builder.icmp_signed("==", rows, I64(mr)), builder.icmp_signed("==", columns, I64(nv * lanes)))
    with builder.if_else(whole) as (full, part):
        with full:
            for index, value in enumerate(sums):
                store(builder, value, I64(index // nv), index % nv, None)
        with part:
            with builder.goto_entry_block():
                buffer = builder.bitcast(builder.alloca(ir.ArrayType(vector, len(sums))), I8.as_pointer())
            for index, value in enumerate(sums):
                store_at(builder, value, byte_offset(builder, buffer, index * 4 * lanes))
            loop = CountedLoop(builder, rows, [])
            line = byte_offset(builder, buffer, builder.mul(loop.index, I64(4 * lanes * nv)))
            for j in range(nv):
                mask = first_lanes(builder, builder.sub(columns, I64(j * lanes)), lanes)
                store(builder, load_at(builder, byte_offset(builder, line, 4 * lanes * j), vector), loop.index, j, mask)
            loop.end([])


def integer_tile(target: Target, form: IntegerForm, mr: int, nv: int) -> Any:
    """The intrinsic ``tile(taps, steps, x, zero, offsets, w, ahead, c, z, factor, terms, y, ldy, rows, columns)``.

    Element (i, j) of the tile is the sum of `IntegerSums.add`, plus ``factor * c[j]``, and unless ``terms`` is 0 also plus
    ``terms[i][0] * c[j] + terms[i][1] * z[j]``, all of them int32 that wrap around, stored at ``y + i * ldy + 4 * j``.

    c, z: int32 [nv * lanes]. terms: int32 [mr][2]. rows, columns: how much of the tile is stored; the rest is computed and
    dropped, and every row must be readable all the same.
    """
    emitter = IntegerSums(target, form, mr, nv)
    lanes = target.f32_lanes

    def corrected(builder: Any, sums: list[Any], c: Any, z: Any, terms: Any) -> list[Any]:
        before = builder.block
        with builder.if_then(builder.icmp_signed("!=", terms, I64(0))):
            sides = emitter.row(builder, c), emitter.row(builder, z)
            changed = []
            for index, value in enumerate(sums):
                i, j = divmod(index, nv)
                for position, side in enumerate(sides):
                    term = load_at(builder, byte_offset(builder, terms, 8 * i + 4 * position), I32)
                    value = builder.add(value, builder.mul(splat_value(builder, term, lanes), side[j]))
                changed.append(value)
            inside = builder.block
        merged = []
        for value, other in zip(sums, changed, strict=True):
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            phi.add_incoming(other, inside)
            merged.append(phi)
        return merged

    def body(builder: Any, args: list[Any]) -> None:
        taps, steps, x, zero, offsets, w, ahead, c, z, factor, terms, y, ldy, rows, columns = args
        by = splat_value(builder, builder.trunc(factor, I32), lanes)
        start = [builder.mul(by, side) for side in emitter.row(builder, c)]
        sums = emitter.add(builder, taps, steps, x, zero, offsets, w, ahead, start * mr)

        def store(builder: Any, value: Any, row: Any, j: int, mask: Any) -> None:
            line = byte_offset(builder, y, builder.mul(row, ldy))
            store_lanes(builder, value, byte_offset(builder, line, 4 * lanes * j), mask)

        store_cells(builder, corrected(builder, sums, c, z, terms), nv, rows, columns, store)

    return micro_kernel(f"integer_tile_{form.name}_{mr}x{nv}", 15, body)
