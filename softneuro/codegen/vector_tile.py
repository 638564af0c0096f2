"""The float32 tile for a few rows times a matrix that comes from memory: several streams of panels at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, prefetch_line
from softneuro.codegen.finish import store_finished
from softneuro.codegen.products import add_products
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes
from softneuro.ops.epilogue import Epilogue

__all__ = ["vector_tile"]


def vector_tile(target: Target, rows: int, nv: int, streams: int, ahead: int, epilogue: str) -> Any:
    """The intrinsic ``tile(depth, x, x_row, w, panels, panel_bytes, bias, y, y_row, residual, columns)``.

    Row i of y is ``sum over k < depth of x[i][k] * w[:][k][:]`` plus bias, through the epilogue, for ``streams``
    panels of nv vectors side by side, of which ``panels`` (at least 1) exist and ``columns`` columns are stored.

    w: float32 [panels][depth][nv * lanes], ``panel_bytes`` apart, each read in order and prefetched ``ahead`` bytes
    before its use. bias: float32 [panels][nv * lanes]. x_row, y_row: bytes between rows; residual is laid out as y.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    vector_bytes = 4 * lanes
    width_bytes = nv * vector_bytes
    parsed = Epilogue.parse(epilogue)
    cells = [(s, j) for s in range(streams) for j in range(nv)]

    def step(builder: Any, position: Any, sources: list[Any], panels: list[Any], sums: list[Any]) -> list[Any]:
        """One k: every vector of w there times every row's element."""
        place = builder.mul(position, I64(width_bytes))
        weights = []
        for s, j in cells:
            line = byte_offset(builder, byte_offset(builder, panels[s], place), j * vector_bytes)
            if j * vector_bytes % CACHE_LINE == 0:
                prefetch_line(builder, byte_offset(builder, line, ahead), locality=3)
            weights.append(load_at(builder, line, vector))
        elements = (byte_offset(builder, source, builder.shl(position, I64(2))) for source in sources)
        return add_products(builder, target, elements, weights, sums)

    def store_row(builder: Any, sums: list[Any], y: Any, residual: Any, columns: Any) -> None:
        """One row, whole vectors or masked at the last columns."""
        for (s, j), value in zip(cells, sums, strict=True):
            place = (s * nv + j) * vector_bytes
            left = builder.sub(columns, I64(place // 4))
            mask = first_lanes(builder, left, lanes)
            with builder.if_then(builder.icmp_signed(">", left, I64(0))):
                store_finished(builder, target, parsed, value, y, residual, place, mask)

    def body(builder: Any, args: list[Any]) -> None:
        depth, x, x_row, w, panels, panel_bytes, bias, y, y_row, residual, columns = args
        present = []
        for s in range(streams):
            last = builder.sub(panels, I64(1))
            present.append(builder.select(builder.icmp_signed("<", I64(s), last), I64(s), last))
        biases = [byte_offset(builder, bias, builder.mul(panel, I64(width_bytes))) for panel in present]
        start = [load_at(builder, byte_offset(builder, biases[s], j * vector_bytes), vector) for s, j in cells]
        sources = [byte_offset(builder, x, builder.mul(x_row, I64(i))) for i in range(rows)]
        starts = [byte_offset(builder, w, builder.mul(panel, panel_bytes)) for panel in present]
        loop = CountedLoop(builder, depth, start * rows)
        loop.end(step(builder, loop.index, sources, starts, loop.carried))
        for i in range(rows):
            row = builder.mul(y_row, I64(i))
            sums = loop.carried[i * len(cells) : (i + 1) * len(cells)]
            store_row(builder, sums, byte_offset(builder, y, row), byte_offset(builder, residual, row), columns)

    return micro_kernel(f"vector_tile_{rows}x{nv}x{streams}", 11, body)
