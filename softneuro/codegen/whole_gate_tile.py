"""The tile of a recurrent layer whose states and recurrent weights are whole numbers: products of 16 bits, sums of 32."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, splat_at, store_at
from softneuro.codegen.integer_products import add_pairs
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, VectorType, build_intrinsic, call_intrinsic, splat_value

__all__ = ["store_whole", "whole_gate_tile"]

I16 = ir.IntType(16)


def whole_gate_tile(target: Target, rows: int, gates: int, blocks: int, element_bytes: int) -> Any:
    """As `softneuro.codegen.gate_tile.gate_tile`, of whole numbers: the intrinsic ``tile(pairs, h, h_row, w, panels,
    panel_bytes, scales, y, y_row)``.

    Row i of y is ``sum over k < 2 * pairs of h[i][k] * w[:][k][:]``, at most 2^31, times the scales of w's columns and of h's
    row. Rows of h: i16 [2 * pairs], their scale in float32 at half of the ``h_row`` bytes. w: i8 or i16 by ``element_bytes``,
    [panels][pairs][gates * lanes][2]. scales, rows of y: float32 [panels][gates * lanes].
    """
    lanes = target.f32_lanes
    real, sums_type = ir.VectorType(F32, lanes), ir.VectorType(I32, lanes)
    factors, stored = ir.VectorType(I16, 2 * lanes), ir.VectorType(ir.IntType(8 * element_bytes), 2 * lanes)
    cells = [(block, gate) for block in range(blocks) for gate in range(gates)]

    def body(builder: Any, args: list[Any]) -> None:
        pairs, h, h_row, w, panels, panel_bytes, scales, y, y_row = args
        last = builder.sub(panels, I64(1))
        present = [builder.select(builder.icmp_signed("<", I64(b), last), I64(b), last) for b in range(blocks)]
        places = [builder.mul(panel, I64(4 * gates * lanes)) for panel in present]
        starts = [byte_offset(builder, w, builder.mul(panel, panel_bytes)) for panel in present]
        sources = [byte_offset(builder, h, builder.mul(h_row, I64(i))) for i in range(rows)]

        def weights_at(offset: Any) -> list[Any]:
            moved = [byte_offset(builder, start, offset) for start in starts]
            found = [load_at(builder, byte_offset(builder, moved[b], g * 2 * lanes * element_bytes), stored, 1) for b, g in cells]
            return [builder.sext(value, factors) if element_bytes == 1 else value for value in found]

        loop = CountedLoop(builder, pairs, [ir.Constant(sums_type, None)] * (rows * len(cells)))
        weights = weights_at(builder.mul(loop.index, I64(2 * gates * lanes * element_bytes)))
        sums = []
        for i, source in enumerate(sources):
            pair = load_at(builder, byte_offset(builder, source, builder.shl(loop.index, I64(2))), I32)
            pair = builder.bitcast(splat_value(builder, pair, lanes), factors)
            carried = loop.carried[i * len(cells) : (i + 1) * len(cells)]
            sums += [_add_pairs(builder, target, old, pair, weight) for old, weight in zip(carried, weights, strict=True)]
        loop.end(sums)
        for i, source in enumerate(sources):
            row = byte_offset(builder, y, builder.mul(y_row, I64(i)))
            scale = splat_at(builder, byte_offset(builder, source, builder.lshr(h_row, I64(1))), lanes)
            for (b, g), total in zip(cells, loop.carried[i * len(cells) :], strict=False):
                column, place = (byte_offset(builder, byte_offset(builder, origin, places[b]), 4 * g * lanes)
                                 for origin in (scales, row))
                factor = builder.fmul(load_at(builder, column, real), scale)
                store_at(builder, builder.fmul(builder.sitofp(total, real), factor), place)

    return micro_kernel(f"whole_gate_tile_{rows}x{gates}x{blocks}", 9, body)


def _add_pairs(builder: Any, target: Target, sums: Any, a: Any, b: Any) -> Any:
    """sums[i] + a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1] for vectors of i32 and, twice as many, i16."""
    lanes = sums.type.count
    if target.triple.startswith("x86_64") and (target.vector_bits < 512 or "+avx512bw" in target.features):
        return add_pairs(builder, sums, a, b)
    for odd in range(2):
        chosen = ir.Constant(ir.VectorType(I32, lanes), list(range(odd, 2 * lanes, 2)))
        one, other = (builder.sext(builder.shuffle_vector(v, v, chosen), sums.type) for v in (a, b))
        sums = builder.add(sums, builder.mul(one, other))
    return sums


def store_whole(target: Target) -> Any:
    """The intrinsic ``store(address, vector)``: float32 that are whole numbers, as i16; a NaN as 0."""
    lanes, whole = target.f32_lanes, ir.VectorType(I16, target.f32_lanes)

    def store(builder: Any, args: list[Any]) -> None:
        value = call_intrinsic(builder, f"llvm.fptosi.sat.v{lanes}i16.v{lanes}f32", whole, [args[1]])
        store_at(builder, value, byte_offset(builder, args[0], 0), 2)

    return build_intrinsic(types.void, [types.int64, VectorType(F32, lanes)], store)
