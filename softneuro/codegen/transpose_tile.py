"""Transposition of matrices of small elements in vector registers.

A square tile is transposed by interleaving: first within 16-byte lanes (log2 of the elements in a lane rounds of
unpacking rows that are half the lane apart), then the lanes themselves. All shuffles have immediate controls.
Intrinsics that are told a number of rows hold a variant for each, so that one compilation serves all shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.elements import FEW
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32

__all__ = ["deinterleave", "interleave", "largest_tile", "repeat_elements", "take_every", "transpose_strip",
           "transpose_strips"]

_LANE_BYTES = 16


def _variants(builder: Any, wanted: Any, numbers: Sequence[int], body: Callable[[int], None]) -> None:
    """Emit ``body(number)`` for every number, of which the one that equals the value ``wanted`` runs."""
    for number in numbers:
        with builder.if_then(builder.icmp_signed("==", wanted, I64(number))):
            body(number)


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


def largest_tile(target: Target, size: int) -> int:
    """Rows of the largest square of elements of ``size`` bytes that is transposed in registers."""
    return min(16 if target.registers >= 32 else 8, target.vector_bits // 8 // size)


def _strip(builder: Any, size: int, tile: int, args: list[Any]) -> None:
    """A strip of squares of ``tile`` rows, see `transpose_strip`."""
    kind = ir.VectorType(ir.IntType(8 * size), tile)
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


def transpose_strip(target: Target, size: int, tile: int) -> Any:
    """The intrinsic ``strip(source, source_step, destination, destination_step, columns)``.

    For i < tile, j < columns (at least ``tile``): element j of destination row i is element i of source row j.
    Steps are bytes from row to row. The last tile overlaps the one before it.
    """
    return micro_kernel(f"transpose_strip_{size}_{tile}", 5, lambda builder, args: _strip(builder, size, tile, args))


def transpose_strips(target: Target, size: int) -> Any:
    """`transpose_strip` for every tile: ``strip(tile, source, ...)``, a power of two up to `largest_tile`."""
    tiles = [1 << power for power in range(largest_tile(target, size).bit_length())]

    def body(builder: Any, args: list[Any]) -> None:
        _variants(builder, args[0], tiles, lambda tile: _strip(builder, size, tile, args[1:]))

    return micro_kernel(f"transpose_strips_{size}", 6, body)


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


def interleave(target: Target, size: int) -> Any:
    """The intrinsic ``interleave(streams, source, source_step, destination, vectors)`` for vectors of a few rows.

    Destination element i * streams + s is element i of source row s, for i < vectors (at least 1) * elements of one.
    """
    count = target.vector_bits // 8 // size
    nbytes = count * size

    def body(builder: Any, args: list[Any]) -> None:
        source, step, destination, vectors = args[1:]

        def join(streams: int) -> None:
            rows = [byte_offset(builder, source, builder.mul(step, I64(s))) for s in range(streams)]

            def block(at: Any) -> None:
                values = [_vectors(builder, byte_offset(builder, row, at), size, count, 1)[0] for row in rows]
                place = byte_offset(builder, destination, builder.mul(at, I64(streams)))
                for number in range(streams):
                    outputs = range(number * count, (number + 1) * count)
                    value = _merge(builder, values, [to % streams * count + to // streams for to in outputs])
                    store_at(builder, value, byte_offset(builder, place, number * nbytes), size)

            _repeated(builder, vectors, nbytes, block)

        _variants(builder, args[0], FEW, join)

    return micro_kernel(f"interleave_{size}", 5, body)


def deinterleave(target: Target, size: int) -> Any:
    """The inverse of `interleave`: ``deinterleave(streams, source, destination, destination_step, vectors)``."""
    count = target.vector_bits // 8 // size
    nbytes = count * size

    def body(builder: Any, args: list[Any]) -> None:
        source, destination, step, vectors = args[1:]

        def part(streams: int) -> None:
            rows = [byte_offset(builder, destination, builder.mul(step, I64(s))) for s in range(streams)]

            def block(at: Any) -> None:
                place = byte_offset(builder, source, builder.mul(at, I64(streams)))
                parts = _vectors(builder, place, size, count, streams)
                for s, row in enumerate(rows):
                    value = _merge(builder, parts, [i * streams + s for i in range(count)])
                    store_at(builder, value, byte_offset(builder, row, at), size)

            _repeated(builder, vectors, nbytes, block)

        _variants(builder, args[0], FEW, part)

    return micro_kernel(f"deinterleave_{size}", 5, body)


def repeat_elements(target: Target, size: int) -> Any:
    """The intrinsic ``repeat(factor, source, destination, vectors)``: each element of the ``vectors`` (at least 1)
    ``factor`` times in a row."""
    count = target.vector_bits // 8 // size
    nbytes = count * size

    def body(builder: Any, args: list[Any]) -> None:
        source, destination, vectors = args[1:]

        def repeat(factor: int) -> None:
            def block(at: Any) -> None:
                (value,) = _vectors(builder, byte_offset(builder, source, at), size, count, 1)
                place = byte_offset(builder, destination, builder.mul(at, I64(factor)))
                for part in range(factor):
                    picks = [to // factor for to in range(part * count, (part + 1) * count)]
                    store_at(builder, _shuffle(builder, value, value, picks),
                             byte_offset(builder, place, part * nbytes), size)

            _repeated(builder, vectors, nbytes, block)

        _variants(builder, args[0], FEW, repeat)

    return micro_kernel(f"repeat_{size}", 4, body)


def take_every(target: Target, size: int) -> Any:
    """The intrinsic ``take(step, source, destination, elements)``: elements that are ``step`` elements apart, more of
    them than a vector holds.

    Reads what lies between them, but nothing before the first or past the last.
    """
    count = target.vector_bits // 8 // size
    nbytes = count * size

    def body(builder: Any, args: list[Any]) -> None:
        source, destination, elements = args[1:]
        last = builder.mul(builder.sub(elements, I64(count)), I64(size))

        def take(step: int) -> None:
            def block(place: Any, to: Any, first: int) -> None:
                parts = _vectors(builder, place, size, count, step)
                value = _merge(builder, parts, [first + i * step for i in range(count)])
                store_at(builder, value, byte_offset(builder, destination, to), size)

            def forward(at: Any) -> None:
                block(byte_offset(builder, source, builder.mul(at, I64(step))), at, 0)

            _repeated(builder, builder.sdiv(builder.sub(elements, I64(1)), I64(count)), nbytes, forward)
            end = byte_offset(builder, source, builder.mul(last, I64(step)))
            block(byte_offset(builder, end, (1 - step) * size), last, step - 1)

        _variants(builder, args[0], FEW, take)

    return micro_kernel(f"take_every_{size}", 4, body)


def _repeated(builder: Any, times: Any, nbytes: int, block: Callable[[Any], None]) -> None:
    """``block(byte offset)`` for vectors of ``nbytes`` one after the other."""
    loop = CountedLoop(builder, times, [])
    block(builder.mul(loop.index, I64(nbytes)))
    loop.end([])


def _vectors(builder: Any, source: Any, size: int, count: int, number: int) -> list[Any]:
    """``number`` vectors of ``count`` elements, one after the other in memory."""
    kind = ir.VectorType(ir.IntType(8 * size), count)
    return [load_at(builder, byte_offset(builder, source, n * count * size), kind, size) for n in range(number)]
