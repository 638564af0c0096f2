"""The float32 matrix-product tile: mr rows by nv vectors of accumulators in registers, and its epilogue."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.finish import finish_value, load_lanes, store_lanes
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic, first_lanes, fma_value, splat_value
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
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    vector_bytes = 4 * lanes
    parsed = Epilogue.parse(epilogue)

    def finished(builder: Any, value: Any, residual: Any, place: Any, mask: Any) -> Any:
        return finish_value(builder, target, parsed, value,
                            lambda: load_lanes(builder, byte_offset(builder, residual, place), lanes, mask))

    def body(builder: Any, args: list[Any]) -> None:
        taps, depth, x, zero, offsets, w, ahead, bias, y, ldy, residual, rows, columns = args
        start = [load_at(builder, byte_offset(builder, bias, j * vector_bytes), vector) for j in range(nv)]
        tap_loop = CountedLoop(builder, taps, [builder.inttoptr(w, ir.IntType(8).as_pointer()),
                                               builder.inttoptr(ahead, ir.IntType(8).as_pointer()), *start * mr])
        table = byte_offset(builder, offsets, builder.mul(tap_loop.index, I64(4 * mr)))
        pointers = []
        for i in range(mr):
            offset = builder.sext(load_at(builder, byte_offset(builder, table, 4 * i), I32), I64)
            inside = builder.icmp_signed(">=", offset, I64(0))
            pointers.append(byte_offset(builder, builder.select(inside, builder.add(x, offset), zero), 0))
        loop = CountedLoop(builder, depth, tap_loop.carried)
        weights, line, *accumulators = loop.carried
        columns_of_w = [load_at(builder, byte_offset(builder, weights, j * vector_bytes), vector) for j in range(nv)]
        flag = ir.IntType(32)
        call_intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [line, flag(0), flag(2), flag(1)])
        step = builder.shl(loop.index, I64(2))
        updated = []
        for i in range(mr):
            scalar = load_at(builder, byte_offset(builder, pointers[i], step), F32)
            row = splat_value(builder, scalar, lanes)
            updated += [fma_value(builder, target, row, columns_of_w[j], accumulators[i * nv + j]) for j in range(nv)]
        loop.end([byte_offset(builder, weights, nv * vector_bytes), byte_offset(builder, line, 64), *updated])
        tap_loop.end(loop.carried)
        _store_tile(builder, tap_loop.carried[2:], y, ldy, residual, rows, columns)

    def _store_tile(builder: Any, values: list[Any], y: Any, ldy: Any, residual: Any, rows: Any, columns: Any) -> None:
        whole = builder.and_(builder.icmp_signed("==", rows, I64(mr)),
                             builder.icmp_signed("==", columns, I64(nv * lanes)))
        full, part, done = (builder.append_basic_block(name) for name in ("full", "part", "done"))
        builder.cbranch(whole, full, part)
        builder.position_at_end(full)
        for i in range(mr):
            row = builder.mul(ldy, I64(i))
            for j in range(nv):
                place = builder.add(row, I64(j * vector_bytes))
                value = finished(builder, values[i * nv + j], residual, place, None)
                store_lanes(builder, value, byte_offset(builder, y, place), None)
        builder.branch(done)
        builder.position_at_end(part)
        _store_part(builder, values, y, ldy, residual, rows, columns)
        builder.branch(done)
        builder.position_at_end(done)

    def _store_part(builder: Any, values: list[Any], y: Any, ldy: Any, residual: Any, rows: Any, columns: Any) -> None:
        """Through a buffer on the stack, row by row with masks: small code for the rare edge."""
        with builder.goto_entry_block():
            buffer = builder.bitcast(builder.alloca(ir.ArrayType(vector, mr * nv)), ir.IntType(8).as_pointer())
        for index, value in enumerate(values):
            store_at(builder, value, byte_offset(builder, buffer, index * vector_bytes))
        row_loop = CountedLoop(builder, rows, [])
        row = builder.mul(row_loop.index, ldy)
        for j in range(nv):
            mask = first_lanes(builder, builder.sub(columns, I64(j * lanes)), lanes)
            place = builder.add(row, I64(j * vector_bytes))
            slot = builder.add(builder.mul(row_loop.index, I64(nv * vector_bytes)), I64(j * vector_bytes))
            value = load_at(builder, byte_offset(builder, buffer, slot), vector)
            value = finished(builder, value, residual, place, mask)
            store_lanes(builder, value, byte_offset(builder, y, place), mask)
        row_loop.end([])

    return micro_kernel(f"gemm_tile_{mr}x{nv}", 13, body)
