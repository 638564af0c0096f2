"""The product at one point of a Winograd transform: rows of tiles times a panel of filters, in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE, WINOGRAD_UNROLL
from softneuro.codegen.emit import I8, I64, CountedLoop, byte_offset, load_at, micro_kernel, prefetch_line, store_at
from softneuro.codegen.products import add_products
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32

__all__ = ["line_bytes", "most_rows", "winograd_tile"]


def most_rows(target: Target, nv: int) -> int:
    """How many rows of ``nv`` accumulators fit in the registers beside the operands."""
    return min(16, target.most_rows(nv))


def line_bytes(target: Target, nv: int) -> int:
    """Bytes of b that one prefetch covers: a cache line, or a whole row of the panel when that is shorter."""
    return min(CACHE_LINE, 4 * nv * target.f32_lanes)


def winograd_tile(target: Target, nv: int) -> Any:
    """The intrinsic ``tile(rows, blocks, rest, a, a_block, b, c, ldc, ahead, ahead_step)``.

    ``c[i][:] = sum over k of a[i][k] * b[k][:]`` for i < rows (1 to `most_rows`), one loop for each number of rows.

    a: [blocks][...][lanes] float32, one row of ``lanes`` depths behind the other, blocks ``a_block`` bytes apart; rest:
    depths in the last block divided by WINOGRAD_UNROLL. b: [depth][nv * lanes]. ldc: bytes between the rows of c.
    ahead: memory to prefetch, at each step of depth as many lines as a row of b has, then ``ahead_step`` bytes further.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    vector_bytes = 4 * lanes
    panel_bytes = nv * vector_bytes
    line_step = line_bytes(target, nv)

    def prefetch(builder: Any, line: Any) -> None:
        for offset in range(0, panel_bytes, line_step):
            prefetch_line(builder, byte_offset(builder, line, offset))

    def multiply(builder: Any, args: list[Any], rows: int) -> None:
        _, blocks, rest, a, a_block, b, c, ldc, ahead, ahead_step = args
        start = [ir.Constant(vector, [0.0] * lanes)] * (rows * nv)
        outer = CountedLoop(builder, blocks, [builder.inttoptr(p, I8.as_pointer()) for p in (a, b, ahead)] + start)
        a_start = outer.carried[0]
        last = builder.icmp_signed("==", outer.index, builder.sub(blocks, I64(1)))
        steps = builder.select(last, rest, I64(lanes // WINOGRAD_UNROLL))
        inner = CountedLoop(builder, steps, outer.carried)
        a_pointer, b_pointer, line, *sums = inner.carried
        for u in range(WINOGRAD_UNROLL):
            columns = [load_at(builder, byte_offset(builder, b_pointer, u * panel_bytes + j * vector_bytes), vector)
                       for j in range(nv)]
            prefetch(builder, line)
            line = byte_offset(builder, line, ahead_step)
            scalars = (byte_offset(builder, a_pointer, i * vector_bytes + 4 * u) for i in range(rows))
            sums = add_products(builder, target, scalars, columns, sums)
        inner.end([byte_offset(builder, a_pointer, 4 * WINOGRAD_UNROLL),
                   byte_offset(builder, b_pointer, WINOGRAD_UNROLL * panel_bytes), line, *sums])
        outer.end([byte_offset(builder, a_start, a_block), *inner.carried[1:]])
        for i in range(rows):
            row_start = byte_offset(builder, c, builder.mul(ldc, I64(i)))
            for j in range(nv):
                store_at(builder, outer.carried[3 + i * nv + j], byte_offset(builder, row_start, j * vector_bytes))

    def body(builder: Any, args: list[Any]) -> None:
        done = builder.append_basic_block("done")
        choice = builder.switch(args[0], done)
        for rows in range(1, most_rows(target, nv) + 1):
            block = builder.append_basic_block(f"rows{rows}")
            choice.add_case(I64(rows), block)
            builder.position_at_end(block)
            multiply(builder, args, rows)
            builder.branch(done)
        builder.position_at_end(done)

    return micro_kernel(f"winograd_tile_{nv}", 10, body)
