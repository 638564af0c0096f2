"""The tile for a few rows times a matrix that comes from memory: several streams of panels at once."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import I64, byte_offset, load_at, micro_kernel, prefetch_line
from softneuro.codegen.finish import Kept, store_finished
from softneuro.codegen.operands import Operands
from softneuro.codegen.products import add_step, repeat_steps, weights_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes
from softneuro.ops.epilogue import Epilogue

__all__ = ["vector_tile"]


def vector_tile(target: Target, rows: int, nv: int, streams: int, ahead: int, epilogue: str,
                operands: Operands | None = None, kept: str = "f32", odd: bool = False) -> Any:
    """The intrinsic ``tile(steps, x, x_row, w, panels, panel_bytes, bias, y, y_row, residual, columns)``.

    Row i of y is ``sum over k < steps of x[i][k] * w[:][k][:]`` plus bias, through the epilogue, for ``streams``
    panels of nv vectors side by side, of which ``panels`` (at least 1) exist and ``columns`` columns are stored.

    operands: what x and w are kept as, None for float32; they say what a step is. odd: rows of x end with half a step.
    kept: what y and the residual are, ``f32``, ``f16`` or ``bf16``.

    w: float32 or bfloat16 [panels][steps][nv * lanes], in pairs [panels][steps][nv * lanes][2], ``panel_bytes`` apart, each
    read in order and prefetched ``ahead`` bytes before its use. bias: float32 [panels][nv * lanes]. x_row, y_row: bytes between
    rows; residual is laid out as y.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    vector_bytes = 4 * lanes
    parsed = Epilogue.parse(epilogue)
    keeping = Kept(kept)
    cells = [(s, j) for s in range(streams) for j in range(nv)]
    sides = operands or Operands(target)
    width_bytes = nv * sides.vector_bytes

    def step(builder: Any, sources: list[Any], panels: list[Any], position: Any, sums: list[Any], half: bool) -> list[Any]:
        """One step: every vector of w there times every row's part."""
        place = builder.mul(position, I64(width_bytes))
        vectors = []
        for s, j in cells:
            line = byte_offset(builder, byte_offset(builder, panels[s], place), j * sides.vector_bytes)
            if j * sides.vector_bytes % CACHE_LINE == 0:
                prefetch_line(builder, byte_offset(builder, line, ahead), locality=3)
            vectors.append(weights_at(builder, sides, line))
        offset = builder.mul(position, I64(sides.x_bytes))
        places = (byte_offset(builder, source, offset) for source in sources)
        return add_step(builder, sides, places, vectors, sums, half)

    def store_row(builder: Any, sums: list[Any], y: Any, residual: Any, columns: Any) -> None:
        """One row, whole vectors or masked at the last columns."""
        for (s, j), value in zip(cells, sums, strict=True):
            before = (s * nv + j) * lanes
            left = builder.sub(columns, I64(before))
            mask = first_lanes(builder, left, lanes)
            with builder.if_then(builder.icmp_signed(">", left, I64(0))):
                store_finished(builder, target, parsed, value, y, residual, before * keeping.nbytes, mask, keeping)

    def body(builder: Any, args: list[Any]) -> None:
        steps, x, x_row, w, panels, panel_bytes, bias, y, y_row, residual, columns = args
        present = []
        for s in range(streams):
            last = builder.sub(panels, I64(1))
            present.append(builder.select(builder.icmp_signed("<", I64(s), last), I64(s), last))
        biases = [byte_offset(builder, bias, builder.mul(panel, I64(nv * vector_bytes))) for panel in present]
        start = [load_at(builder, byte_offset(builder, biases[s], j * vector_bytes), vector) for s, j in cells]
        sources = [byte_offset(builder, x, builder.mul(x_row, I64(i))) for i in range(rows)]
        starts = [byte_offset(builder, w, builder.mul(panel, panel_bytes)) for panel in present]
        finished = repeat_steps(builder, steps, odd, start * rows, functools.partial(step, builder, sources, starts))
        for i in range(rows):
            row = builder.mul(y_row, I64(i))
            sums = finished[i * len(cells) : (i + 1) * len(cells)]
            store_row(builder, sums, byte_offset(builder, y, row), byte_offset(builder, residual, row), columns)

    return micro_kernel(f"vector_tile_{rows}x{nv}x{streams}", 11, body)
