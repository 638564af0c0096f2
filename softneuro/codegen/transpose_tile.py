"""Transposition of matrices of small elements in vector registers.

A square tile is transposed by interleaving: first within 16-byte lanes (log2 of the elements in a lane rounds of
unpacking rows that are half the lane apart), then the lanes themselves. All shuffles have immediate controls.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32

__all__ = ["deinterleave", "interleave", "repeat_elements", "take_every", "transpose_strip"]

_LANE_BYTES = 16


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _unpack(builder: Any, a: Any, b: Any, lane: int, high: bool) -> Any:
    """Elements of the low or high halves of every lane of a and b, alternating."""
    count = a.type.count
    half = lane // 2 if high else 0
    picks = [start + half + i // 2 + (i % 2) * count for start in range(0, count, lane) for i in range(lane)]
    return _shuffle(builder, a, b, picks)


def _pick_lanes(builder: Any, a: Any, b: Any, lane: int, odd: bool) -> Any:
    """The even or odd lanes of a, then those of b."""
    count = a.type.count
    starts = range(lane if odd else 0, 2 * count, 2 * lane)
    return _shuffle(builder, a, b, [start + i for start in starts for i in range(lane)])


def _transpose_lanes(builder: Any, rows: list[Any], lane: int) -> list[Any]:
    """Result i is lane i of every row; as many rows as lanes, a power of two."""
    if len(rows) == 1:
        return rows
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    even, odd = (_transpose_lanes(builder, [_pick_lanes(builder, a, b, lane, which) for a, b in pairs], lane)
                 for which in (False, True))
    return [row for both in zip(even, odd, strict=True) for row in both]


def _transposed(builder: Any, rows: list[Any], size: int) -> list[Any]:
    """The transpose of a square of rows (vectors of as many elements as there are rows)."""
    count = len(rows)
    lane = min(count, _LANE_BYTES // size)
    groups = []
    for start in range(0, count, lane):
        group = rows[start : start + lane]
        for _ in range(lane.bit_length() - 1):
            pairs = list(zip(group[: lane // 2], group[lane // 2 :], strict=True))
            group = [_unpack(builder, a, b, lane, high) for a, b in pairs for high in (False, True)]
        groups.append(group)
    columns = [_transpose_lanes(builder, [group[i] for group in groups], lane) for i in range(lane)]
    return [columns[i % lane][i // lane] for i in range(count)]


def transpose_strip(target: Target, size: int, tile: int) -> Any:
    """The intrinsic ``strip(source, source_step, destination, destination_step, columns)``.

    For i < tile, j < columns (at least ``tile``): element j of destination row i is element i of source row j.
    Steps are bytes from row to row. The last tile overlaps the one before it.
    """
    kind = ir.VectorType(ir.IntType(8 * size), tile)

    def body(builder: Any, args: list[Any]) -> None:
        source, source_step, destination, destination_step, columns = args
        last = builder.sub(columns, I64(tile))
        loop = CountedLoop(builder, builder.sdiv(builder.add(columns, I64(tile - 1)), I64(tile)), [])
        start = builder.mul(loop.index, I64(tile))
        start = builder.select(builder.icmp_signed("<", start, last), start, last)
        base = byte_offset(builder, source, builder.mul(start, source_step))
        rows = [load_at(builder, byte_offset(builder, base, builder.mul(source_step, I64(i))), kind, size)
                for i in range(tile)]
        base = byte_offset(builder, destination, builder.mul(start, I64(size)))
        for i, row in enumerate(_transposed(builder, rows, size)):
            store_at(builder, row, byte_offset(builder, base, builder.mul(destination_step, I64(i))), size)
        loop.end([])

    return micro_kernel(f"transpose_strip_{size}_{tile}", 5, body)


def _merge(builder: Any, sources: list[Any], picks: list[int]) -> Any:
    """Lane l is element picks[l] of the concatenated sources, by a chain of two-source shuffles."""
    count = sources[0].type.count
    result = sources[0]
    for number, vector in enumerate(sources[1:], 1):
        here = [pick - number * count if number * count <= pick < (number + 1) * count else None for pick in picks]
        keep = [pick % count for pick in picks] if number == 1 else list(range(count))
        lanes = [k if h is None else count + h for k, h in zip(keep, here, strict=True)]
        result = _shuffle(builder, result, vector, lanes)
    return result


def interleave(target: Target, size: int, streams: int) -> Any:
    """The intrinsic ``interleave(source, source_step, destination)`` for one vector of each of ``streams`` rows.

    Destination element i * streams + s is element i of source row s, for i < vector bytes / size.
    """
    count = target.vector_bits // 8 // size
    kind = ir.VectorType(ir.IntType(8 * size), count)

    def body(builder: Any, args: list[Any]) -> None:
        source, step, destination = args
        places = [byte_offset(builder, source, builder.mul(step, I64(s))) for s in range(streams)]
        rows = [load_at(builder, place, kind, size) for place in places]
        for number in range(streams):
            outputs = range(number * count, (number + 1) * count)
            value = _merge(builder, rows, [at % streams * count + at // streams for at in outputs])
            store_at(builder, value, byte_offset(builder, destination, number * count * size), size)

    return micro_kernel(f"interleave_{size}_{streams}", 3, body)


def deinterleave(target: Target, size: int, streams: int) -> Any:
    """The inverse of `interleave`: ``deinterleave(source, destination, destination_step)``."""
    count = target.vector_bits // 8 // size
    kind = ir.VectorType(ir.IntType(8 * size), count)

    def body(builder: Any, args: list[Any]) -> None:
        source, destination, step = args
        parts = [load_at(builder, byte_offset(builder, source, p * count * size), kind, size) for p in range(streams)]
        for s in range(streams):
            value = _merge(builder, parts, [i * streams + s for i in range(count)])
            store_at(builder, value, byte_offset(builder, destination, builder.mul(step, I64(s))), size)

    return micro_kernel(f"deinterleave_{size}_{streams}", 3, body)


def repeat_elements(target: Target, size: int, factor: int) -> Any:
    """The intrinsic ``repeat(source, destination)``: one vector, each element ``factor`` times in a row."""
    count = target.vector_bits // 8 // size
    kind = ir.VectorType(ir.IntType(8 * size), count)

    def body(builder: Any, args: list[Any]) -> None:
        source, destination = args
        value = load_at(builder, byte_offset(builder, source, 0), kind, size)
        for part in range(factor):
            picks = [at // factor for at in range(part * count, (part + 1) * count)]
            place = byte_offset(builder, destination, part * count * size)
            store_at(builder, _shuffle(builder, value, value, picks), place, size)

    return micro_kernel(f"repeat_{size}_{factor}", 2, body)


def take_every(target: Target, size: int, step: int) -> Any:
    """The intrinsic ``take(source, destination)``: one vector of elements that are ``step`` elements apart.

    Reads ``step`` whole vectors.
    """
    count = target.vector_bits // 8 // size
    kind = ir.VectorType(ir.IntType(8 * size), count)

    def body(builder: Any, args: list[Any]) -> None:
        source, destination = args
        parts = [load_at(builder, byte_offset(builder, source, p * count * size), kind, size) for p in range(step)]
        value = _merge(builder, parts, [i * step for i in range(count)])
        store_at(builder, value, byte_offset(builder, destination, 0), size)

    return micro_kernel(f"take_every_{size}_{step}", 2, body)
