"""What surrounds Winograd's transforms: where a tile's pixels are, copies of partial tiles, prefetching."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.emit import (
    I64,
    CountedLoop,
    byte_offset,
    load_at,
    load_lanes,
    micro_kernel,
    prefetch_line,
    store_at,
    store_lanes,
)
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes

__all__ = ["copy_box", "locate_tile", "prefetch_box"]


def locate_tile(n: int) -> Any:
    """The intrinsic ``locate(first, row, pixel, top, left, height, width, outside, addresses)``.

    Writes the int64 addresses of a tile's n x n pixels, rows ``row`` bytes and pixels ``pixel`` bytes apart from
    ``first``. The tile starts at row ``top`` and column ``left`` of an image of height x width; pixels that are not
    in it are all at ``outside``.
    """

    def body(builder: Any, args: list[Any]) -> None:
        first, row, pixel, top, left, height, width, outside, addresses = args

        def inside(start: Any, size: Any) -> list[Any]:
            return [builder.icmp_unsigned("<", builder.add(start, I64(k)), size) for k in range(n)]

        columns = list(zip(inside(left, width), (builder.mul(pixel, I64(j)) for j in range(n)), strict=True))
        for i, row_inside in enumerate(inside(top, height)):
            start = builder.add(first, builder.mul(row, I64(i)))
            for j, (column_inside, offset) in enumerate(columns):
                address = builder.select(builder.and_(row_inside, column_inside), builder.add(start, offset), outside)
                store_at(builder, address, byte_offset(builder, addresses, 8 * (i * n + j)), align=8)

    return micro_kernel(f"winograd_locate_{n}", 9, body)


def copy_box(target: Target) -> Any:
    """The intrinsic ``copy(source, source_row, source_pixel, to, to_row, to_pixel, rows, columns, channels)``.

    Copies rows x columns pixels (at least one) of ``channels`` floats each and touches nothing else; strides in bytes.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)

    def move(builder: Any, source: Any, to: Any, left: Any) -> None:
        with builder.if_else(builder.icmp_signed(">=", left, I64(lanes))) as (whole, part):
            with whole:
                store_at(builder, load_at(builder, source, vector), to)
            with part:
                mask = first_lanes(builder, left, lanes)
                store_lanes(builder, load_lanes(builder, source, vector, mask), to, mask)

    def body(builder: Any, args: list[Any]) -> None:
        source, source_row, source_pixel, to, to_row, to_pixel, rows, columns, channels = args
        vectors = builder.sdiv(builder.add(channels, I64(lanes - 1)), I64(lanes))
        down = CountedLoop(builder, rows, [byte_offset(builder, source, 0), byte_offset(builder, to, 0)])
        row_start = down.carried
        along = CountedLoop(builder, columns, row_start)
        across = CountedLoop(builder, vectors, [])
        done = builder.mul(across.index, I64(lanes))
        source, to = (byte_offset(builder, p, builder.mul(done, I64(4))) for p in along.carried)
        move(builder, source, to, builder.sub(channels, done))
        across.end([])
        steps = [source_pixel, to_pixel]
        along.end([byte_offset(builder, p, step) for p, step in zip(along.carried, steps, strict=True)])
        steps = [source_row, to_row]
        down.end([byte_offset(builder, p, step) for p, step in zip(row_start, steps, strict=True)])

    return micro_kernel("winograd_copy", 9, body)


def prefetch_box() -> Any:
    """The intrinsic ``prefetch(address, row, pixel, rows, pixels, lines)``.

    Asks for rows x pixels x lines (at least one) cache lines in the second-level cache; row and pixel are strides in
    bytes, the lines of a pixel follow each other.
    """

    def body(builder: Any, args: list[Any]) -> None:
        address, row, pixel, rows, pixels, lines = args
        down = CountedLoop(builder, rows, [byte_offset(builder, address, 0)])
        row_start = down.carried[0]
        along = CountedLoop(builder, pixels, [row_start])
        across = CountedLoop(builder, lines, [along.carried[0]])
        prefetch_line(builder, across.carried[0])
        across.end([byte_offset(builder, across.carried[0], CACHE_LINE)])
        along.end([byte_offset(builder, along.carried[0], pixel)])
        down.end([byte_offset(builder, row_start, row)])

    return micro_kernel("winograd_prefetch", 6, body)
