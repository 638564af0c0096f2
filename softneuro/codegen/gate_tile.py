"""The float32 tile of a recurrent layer: states of a few rows times the recurrent weights of a few blocks of units."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.products import add_products
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32

__all__ = ["gate_tile"]


def gate_tile(target: Target, rows: int, gates: int, blocks: int) -> Any:
    """The intrinsic ``tile(depth, h, h_row, w, panels, panel_bytes, bias, y, y_row)``.

    Row i of y is ``sum over k < depth of h[i][k] * w[:][k][:]`` plus bias for ``blocks`` panels, of which ``panels`` (at
    least 1) exist; a panel has one vector for each gate of a vector of hidden units. depth is at least 1.

    w: float32 [panels][depth][gates * lanes], ``panel_bytes`` apart. bias, rows of y: float32 [panels][gates * lanes].
    h_row, y_row: bytes between rows.
    """
    vector = ir.VectorType(F32, target.f32_lanes)
    vector_bytes = 4 * target.f32_lanes
    width_bytes = gates * vector_bytes
    cells = [(block, gate) for block in range(blocks) for gate in range(gates)]

    def body(builder: Any, args: list[Any]) -> None:
        depth, h, h_row, w, panels, panel_bytes, bias, y, y_row = args
        last = builder.sub(panels, I64(1))
        present = [builder.select(builder.icmp_signed("<", I64(b), last), I64(b), last) for b in range(blocks)]
        places = [builder.mul(panel, I64(width_bytes)) for panel in present]
        starts = [byte_offset(builder, w, builder.mul(panel, panel_bytes)) for panel in present]
        sources = [byte_offset(builder, h, builder.mul(h_row, I64(i))) for i in range(rows)]

        def vectors_at(pointers: list[Any], offset: Any) -> list[Any]:
            moved = [byte_offset(builder, pointer, offset) for pointer in pointers]
            return [load_at(builder, byte_offset(builder, moved[b], g * vector_bytes), vector) for b, g in cells]

        sums = vectors_at([byte_offset(builder, bias, place) for place in places], 0) * rows
        loop = CountedLoop(builder, depth, sums)
        weights = vectors_at(starts, builder.mul(loop.index, I64(width_bytes)))
        elements = (byte_offset(builder, source, builder.shl(loop.index, I64(2))) for source in sources)
        loop.end(add_products(builder, target, elements, weights, loop.carried))
        for i in range(rows):
            row = byte_offset(builder, y, builder.mul(y_row, I64(i)))
            for (block, gate), value in zip(cells, loop.carried[i * len(cells) :], strict=False):
                store_at(builder, value, byte_offset(builder, byte_offset(builder, row, places[block]), gate * vector_bytes))

    return micro_kernel(f"gate_tile_{rows}x{gates}x{blocks}", 9, body)
