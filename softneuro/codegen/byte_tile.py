"""The matrix-product tile of bytes: exact sums of unsigned times signed 8-bit integers, in the target's best form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from softneuro.codegen.byte_finish import ByteFinish
from softneuro.codegen.byte_panels import STEP, parts_of, step_bytes
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_at, micro_kernel, prefetch_line, store_at
from softneuro.codegen.integer_forms import DOT, PAIRS, IntegerForm, integer_form
from softneuro.codegen.integer_products import add_form_products
from softneuro.codegen.products import repeat_steps
from softneuro.codegen.tap_rows import tap_rows, vectors_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, splat_value

__all__ = ["byte_tile"]

_I16 = ir.IntType(16)
_EVEN_BYTES = 0x00FF00FF


def byte_tile(target: Target, mr: int, nv: int, epilogue: str, kept: str, rest: int, ahead: int = 0) -> Any:
    """The intrinsic ``tile(taps, steps, last, x, zero, offsets, w, next, columns, y, ldy, residual, rows, width, numbers)``.

    Row i of the tile is ``sum over t < taps, k < 4 * steps of x[offsets[t][i] + k] * w[t][k][:]`` from the columns' start
    on, made real by their factor and addend, through the epilogue, and stored at ``y + i * ldy``.

    offsets: int32 [taps][mr], byte offsets from ``x`` to rows of unsigned bytes, or negative for the row at ``zero``.
    w: a panel as in `byte_panels`. rest, last: `rest_of` a row, and where its last step begins. next: address of memory to
    prefetch, one cache line a step; with ``ahead`` the panel itself is, so many bytes before its use.
    columns: [`COLUMN_NUMBERS`][nv * lanes]. kept: what y and the residual (same shape) are, ``qint8`` or a float type.
    ldy: bytes between their rows. rows, width: how much of the tile is stored; the rest is computed and dropped, and every
    offset must be readable all the same. taps and steps are at least 1. numbers: float32 [`BYTE_NUMBERS`], for qint8.
    """
    emitter = _Tile(target, integer_form(target), mr, nv, rest, ahead)

    def body(builder: Any, args: list[Any]) -> None:
        taps, steps, last, x, zero, offsets, w, following, columns, y, ldy, residual, rows, width, numbers = args
        finish = ByteFinish(builder, target, nv, epilogue, kept, columns, numbers, y, residual)
        sums = emitter.sums(builder, taps, steps, last, x, zero, offsets, w, following, emitter.row(builder, columns))
        emitter.store(builder, finish, sums, ldy, rows, width)

    return micro_kernel(f"byte_tile_{mr}x{nv}", 15, body)


@dataclass(frozen=True)
class _Tile:
    """The emitters of one size of tile; sums are vectors in row-major order."""

    target: Target
    form: IntegerForm
    mr: int
    nv: int
    rest: int
    ahead: int

    @property
    def vector(self) -> ir.Type:
        """The type of a vector of sums."""
        return ir.VectorType(I32, self.target.f32_lanes)

    def row(self, builder: Any, pointer: Any) -> list[Any]:
        """The nv vectors of int32 at a byte pointer."""
        return vectors_at(builder, pointer, self.vector, self.nv)

    def sums(self, builder: Any, taps: Any, steps: Any, last: Any, x: Any, zero: Any, offsets: Any, w: Any, following: Any,
             start: list[Any]) -> list[Any]:
        """All products over taps and steps, added to ``start`` in every row."""
        pointers = [builder.inttoptr(address, I8.as_pointer()) for address in (w, following)]
        outer = CountedLoop(builder, taps, [*pointers, *start * self.mr])
        rows = tap_rows(builder, self.mr, x, zero, byte_offset(builder, offsets, builder.mul(outer.index, I64(4 * self.mr))))

        def step(index: Any, carried: list[Any], end: bool) -> list[Any]:
            return self._step(builder, rows, last if end else builder.shl(index, I64(2)), carried)

        outer.end(repeat_steps(builder, steps, self.rest == STEP, outer.carried, step))
        return list(outer.carried[2:])

    def _step(self, builder: Any, rows: list[Any], place: Any, carried: list[Any]) -> list[Any]:
        """The pointers to weights and to what is prefetched, and the sums, after the step at byte ``place`` of the rows."""
        weights, line, *sums = carried
        line_bytes = self.nv * self.target.f32_lanes * step_bytes(self.form)
        if self.ahead:
            for before in range(0, line_bytes, CACHE_LINE):
                prefetch_line(builder, byte_offset(builder, weights, before + self.ahead), locality=3)
        else:
            prefetch_line(builder, line)
        parts = [self._weights(builder, weights, part) for part in range(parts_of(self.form))]
        updated: list[Any] = []
        for row in rows:
            word = self._word(builder, byte_offset(builder, row, place))
            totals = sums[len(updated) : len(updated) + self.nv]
            for part, vectors in enumerate(parts):
                factor = self._factor(builder, word, part)
                pairs = zip(totals, vectors, strict=True)
                totals = [add_form_products(builder, self.form, total, factor, v) for total, v in pairs]
            updated += totals
        return [byte_offset(builder, weights, line_bytes), byte_offset(builder, line, CACHE_LINE), *updated]

    def store(self, builder: Any, finish: ByteFinish, sums: list[Any], ldy: Any, rows: Any, width: Any) -> None:
        """All of the tile, or its first rows and columns through a buffer on the stack: small code for the edge."""
        lanes = self.target.f32_lanes
        whole = builder.and_(builder.icmp_signed("==", rows, I64(self.mr)),
                             builder.icmp_signed("==", width, I64(self.nv * lanes)))
        with builder.if_else(whole) as (full, part):
            with full:
                for i in range(self.mr):
                    finish.store(sums[i * self.nv : (i + 1) * self.nv], builder.mul(ldy, I64(i)))
            with part:
                with builder.goto_entry_block():
                    buffer = builder.bitcast(builder.alloca(ir.ArrayType(self.vector, len(sums))), I8.as_pointer())
                for index, value in enumerate(sums):
                    store_at(builder, value, byte_offset(builder, buffer, index * 4 * lanes))
                loop = CountedLoop(builder, rows, [])
                line = byte_offset(builder, buffer, builder.mul(loop.index, I64(4 * lanes * self.nv)))
                finish.store(self.row(builder, line), builder.mul(loop.index, ldy), width)
                loop.end([])

    def _word(self, builder: Any, pointer: Any) -> Any:
        """The bytes of a step of a row, in every lane."""
        if self.rest in (0, STEP):
            word = load_at(builder, pointer, I32, 1)
        elif self.rest == 1:
            word = builder.zext(load_at(builder, pointer, I8, 1), I32)
        else:
            word = builder.zext(load_at(builder, pointer, _I16, 1), I32)
            if self.rest == 3:
                third = builder.zext(load_at(builder, byte_offset(builder, pointer, 2), I8, 1), I32)
                word = builder.or_(word, builder.shl(third, I32(16)))
        return splat_value(builder, word, self.target.f32_lanes)

    def _weights(self, builder: Any, pointer: Any, part: int) -> list[Any]:
        """A part of a step of the vectors of columns, as the form multiplies it."""
        lanes = self.target.f32_lanes
        kind = self.vector if self.form.group > 1 else ir.VectorType(_I16, lanes)
        found = []
        for j in range(self.nv):
            place = byte_offset(builder, pointer, (part * self.nv + j) * lanes * self.form.step_bytes)
            value = load_at(builder, place, kind, 4 if self.form.group > 1 else 2)
            found.append(value if self.form.group > 1 else builder.sext(value, self.vector))
        return found

    def _factor(self, builder: Any, word: Any, part: int) -> Any:
        """A part of a step of a row, in every lane."""
        if self.form is DOT:
            return word
        if self.form is PAIRS:
            if part:
                halves = builder.bitcast(word, ir.VectorType(_I16, 2 * word.type.count))
                return builder.bitcast(builder.lshr(halves, ir.Constant(halves.type, [8] * halves.type.count)), word.type)
            return builder.and_(word, ir.Constant(word.type, [_EVEN_BYTES] * word.type.count))
        moved = builder.lshr(word, ir.Constant(word.type, [8 * part] * word.type.count))
        return builder.and_(moved, ir.Constant(word.type, [0xFF] * word.type.count))
