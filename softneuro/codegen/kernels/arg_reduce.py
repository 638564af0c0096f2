"""Positions of the largest or smallest elements of lines: along lines whose elements are neighbours, or across lines
that lie side by side.

Words: 0 x, 1 y (int64), 2 outer lines, 3 elements of a line, 4 inner lines (1: elements are neighbours).

Elements become integer keys with the same order (NaN above all), so that one code serves every data type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_lanes, micro_kernel, store_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.scalars import FLOAT_INFINITIES, SIZES, is_unsigned
from softneuro.codegen.target import Target
from softneuro.codegen.vector import call_intrinsic, first_lanes, splat_value

__all__ = ["make"]

_VECTORS = 4
Values = Sequence[Any]


class _Search:
    """The vector code of one data type: keys, and one step of the search in every lane."""

    def __init__(self, target: Target, dtype: str, smallest: bool, last: bool) -> None:
        self.size, self.dtype, self.smallest, self.last = SIZES[dtype], dtype, smallest, last
        self.lanes = target.vector_bits // 8 // max(4, self.size)
        self.element = ir.IntType(8 * max(4, self.size))
        self.vector = ir.VectorType(self.element, self.lanes)
        self._loaded = ir.VectorType(ir.IntType(8 * self.size), self.lanes)

    def constant(self, value: int) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def keys(self, builder: Any, pointer: Any, mask: Any) -> Any:
        """The keys of ``lanes`` elements, turned round when the smallest is sought."""
        bits = load_lanes(builder, pointer, self._loaded, mask, self.size)
        if self.size < 4:
            bits = builder.zext(bits, self.vector) if is_unsigned(self.dtype) else builder.sext(bits, self.vector)
        elif is_unsigned(self.dtype):
            bits = builder.xor(bits, self.constant(-(1 << (8 * self.size - 1))))
        turn = self.constant(-1 if self.smallest else 0)
        infinity = FLOAT_INFINITIES.get(self.dtype)
        if infinity is None:
            return builder.xor(bits, turn)
        most = (1 << (8 * self.size - 1)) - 1
        signs = builder.ashr(bits, self.constant(self.element.width - 1))
        key = builder.xor(bits, builder.and_(signs, self.constant(most)))
        is_zero = builder.icmp_signed("==", bits, self.constant(-most - 1))
        key = builder.xor(builder.select(is_zero, self.constant(0), key), turn)
        is_nan = builder.icmp_signed(">", builder.and_(bits, self.constant(most)), self.constant(infinity))
        return builder.select(is_nan, self.constant((1 << (self.element.width - 1)) - 1), key)

    def start(self) -> Any:
        return self.constant(-(1 << (self.element.width - 1)))

    def ramp(self) -> Any:
        return ir.Constant(self.vector, list(range(self.lanes)))

    def positions(self, builder: Any, index: Any) -> Any:
        """The int64 ``index`` in every lane."""
        return splat_value(builder, builder.trunc(index, self.element) if self.element.width < 64 else index, self.lanes)

    def step(self, builder: Any, best: Any, found: Any, key: Any, where: Any, mask: Any) -> tuple[Any, Any]:
        """The best keys and their positions after one more key in every lane of the mask."""
        better = builder.icmp_signed(">=" if self.last else ">", key, best)
        if mask is not None:
            better = builder.and_(better, mask)
            return builder.select(better, key, best), builder.select(better, where, found)
        largest = call_intrinsic(builder, f"llvm.smax.v{self.lanes}i{self.element.width}", self.vector, [best, key])
        return largest, builder.select(better, where, found)

    def across(self, builder: Any, best: Any, found: Any) -> Any:
        """The position (int64) of the best key of all lanes; of equal ones the first or the last position."""
        key, where = (builder.extract_element(v, ir.IntType(32)(0)) for v in (best, found))
        for lane in range(1, self.lanes):
            other, there = (builder.extract_element(v, ir.IntType(32)(lane)) for v in (best, found))
            wins_tie = builder.icmp_signed(">" if self.last else "<", there, where)
            tied = builder.and_(builder.icmp_signed("==", other, key), wins_tie)
            better = builder.or_(builder.icmp_signed(">", other, key), tied)
            key, where = builder.select(better, other, key), builder.select(better, there, where)
        return builder.sext(where, I64) if self.element.width < 64 else where


def _row(search: _Search) -> Any:
    """The intrinsic ``row(x, length, y)``: one line of neighbours."""

    def body(builder: Any, args: list[Any]) -> None:
        x, length, y = args
        lanes = I64(search.lanes)
        whole = builder.sdiv(length, lanes)
        entry = builder.block
        begin = search.start(), search.ramp()
        with builder.if_then(builder.icmp_signed(">", whole, I64(0))):
            loop = CountedLoop(builder, whole, begin)
            at = builder.mul(loop.index, lanes)
            key = search.keys(builder, byte_offset(builder, x, builder.mul(at, I64(search.size))), None)
            where = builder.add(search.positions(builder, at), search.ramp())
            best, found = loop.carried
            loop.end(search.step(builder, best, found, key, where, None))
            results, inside = loop.carried, builder.block
        merged = []
        for before, after in zip(begin, results, strict=True):
            phi = builder.phi(search.vector)
            phi.add_incoming(before, entry)
            phi.add_incoming(after, inside)
            merged.append(phi)
        at = builder.mul(whole, lanes)
        mask = first_lanes(builder, builder.sub(length, at), search.lanes)
        key = search.keys(builder, byte_offset(builder, x, builder.mul(at, I64(search.size))), mask)
        where = builder.add(search.positions(builder, at), search.ramp())
        best, found = merged
        best, found = search.step(builder, best, found, key, where, mask)
        store_lanes(builder, search.across(builder, best, found), byte_offset(builder, y, 0), None, 8)

    return micro_kernel("arg_row", 3, body)


def _columns(search: _Search, count: int, masked: bool) -> Any:
    """The intrinsic ``columns(x, length, step, y, lines)``: ``count`` vectors of lines side by side, of which only the
    first ``lines`` exist when ``masked``; ``step`` bytes from one element of a line to the next."""

    def body(builder: Any, args: list[Any]) -> None:
        x, length, step, y, lines = args
        mask = first_lanes(builder, lines, search.lanes) if masked else None
        loop = CountedLoop(builder, length, [*[search.start()] * count, *[search.constant(0)] * count])
        row = byte_offset(builder, x, builder.mul(loop.index, step))
        where = search.positions(builder, loop.index)
        steps = []
        for i in range(count):
            key = search.keys(builder, byte_offset(builder, row, i * search.lanes * search.size), mask)
            steps.append(search.step(builder, loop.carried[i], loop.carried[count + i], key, where, None))
        loop.end([best for best, _ in steps] + [found for _, found in steps])
        wide = ir.VectorType(I64, search.lanes)
        for i in range(count):
            found = loop.carried[count + i]
            found = found if found.type == wide else builder.sext(found, wide)
            store_lanes(builder, found, byte_offset(builder, y, i * search.lanes * 8), mask, 8)

    return micro_kernel(f"arg_columns_{count}_{int(masked)}", 5, body)


def make(target: Target, dtype: str, smallest: bool, last: bool) -> Callable[[int, int, int], None]:
    """Threads share the lines, or blocks of lines side by side."""
    search = _Search(target, dtype, smallest, last)
    row, many = _row(search), _columns(search, _VECTORS, masked=False)
    one, part = _columns(search, 1, masked=False), _columns(search, 1, masked=True)
    size, lanes = search.size, search.lanes
    width = _VECTORS * lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y = load_i64(args, 0), load_i64(args, 1)
        outer, length, inner = load_i64(args, 2), load_i64(args, 3), load_i64(args, 4)
        if inner == 1:
            for line in range(outer * tid // nthreads, outer * (tid + 1) // nthreads):
                row(x + line * length * size, length, y + line * 8)
            return
        blocks = (inner + width - 1) // width
        for unit in range(outer * blocks * tid // nthreads, outer * blocks * (tid + 1) // nthreads):
            line = unit // blocks
            first = (unit - line * blocks) * width
            base, to = x + (line * length * inner + first) * size, y + (line * inner + first) * 8
            held = min(width, inner - first)
            if held == width:
                many(base, length, inner * size, to, width)
            else:
                for i in range(0, held, lanes):
                    if held - i >= lanes:
                        one(base + i * size, length, inner * size, to + i * 8, lanes)
                    else:
                        part(base + i * size, length, inner * size, to + i * 8, held - i)

    return kernel
