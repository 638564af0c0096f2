"""The input and output transforms of Winograd's convolution, on vectors of channels.

A two-dimensional transform is the one-dimensional one down the columns and then along the rows. The points come in
pairs p, -p, so two rows of B^T differ only in the sign of their odd part, and two columns of A^T likewise: each
pair shares an even and an odd sum. Rows are made in groups small enough for the registers; a group loads the values
it needs again, which is cheaper than spilling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.finish import store_finished
from softneuro.codegen.functions import constant
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, fma_value
from softneuro.codegen.winograd_matrices import Matrix, minimal
from softneuro.ops.epilogue import Epilogue

__all__ = ["input_transform", "output_transform"]

Terms = Sequence[tuple[Fraction, Any]]
Load = Callable[[int], Any]


def _combination(builder: Any, target: Target, terms: Terms) -> Any:
    """The sum of coefficient * value, terms of coefficient 0 left out; at least one must remain."""
    ordered = sorted(((c, v) for c, v in terms if c), key=lambda term: (term[0] != 1, abs(term[0]) != 1))
    coefficient, value = ordered[0]
    total = value if coefficient == 1 else builder.fmul(value, constant(value, float(coefficient)))
    for coefficient, value in ordered[1:]:
        if abs(coefficient) == 1:
            total = (builder.fadd if coefficient > 0 else builder.fsub)(total, value)
        else:
            total = fma_value(builder, target, value, constant(value, float(coefficient)), total)
    return total


def _mirrored(row: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Whether ``other`` is ``row`` with its odd coefficients negated, and both have odd and even ones."""
    flipped = [-c if k % 2 else c for k, c in enumerate(row)]
    return list(other) == flipped and any(row[0::2]) and any(row[1::2])


def _input_rows(builder: Any, target: Target, matrix: Matrix, rows: Sequence[int], load: Load) -> dict[int, Any]:
    """Rows of ``matrix @ values``, ``load(k)`` being value k; mirrored rows share an even and an odd sum."""
    values: dict[int, Any] = {}

    def part(i: int, first: int, step: int) -> Any:
        terms = []
        for k in range(first, len(matrix), step):
            if matrix[i][k]:
                if k not in values:
                    values[k] = load(k)
                terms.append((matrix[i][k], values[k]))
        return _combination(builder, target, terms)

    result: dict[int, Any] = {}
    for i in rows:
        mirror = next((j for j in rows if _mirrored(matrix[i], matrix[j])), None)
        if mirror is None:
            result[i] = part(i, 0, 1)
        elif i < mirror:
            even, odd = part(i, 0, 2), part(i, 1, 2)
            result[i] = builder.fadd(even, odd)
            result[mirror] = builder.fsub(even, odd)
    return result


def _output_rows(builder: Any, target: Target, matrix: Matrix, rows: Sequence[int], load: Load) -> dict[int, Any]:
    """Rows of ``matrix @ values`` for a matrix whose columns 1, 2 and 3, 4, ... are those of opposite points."""
    last = len(matrix[0]) - 1
    ends = {k: load(k) for k in (0, last) if any(matrix[i][k] for i in rows)}
    pairs = {k: (load(k), load(k + 1)) for k in range(1, last, 2)}
    sums = {k: builder.fadd(a, b) for k, (a, b) in pairs.items()}
    differences = {k: builder.fsub(a, b) for k, (a, b) in pairs.items()}
    result: dict[int, Any] = {}
    for i in rows:
        values = ends | (differences if i % 2 else sums)
        result[i] = _combination(builder, target, [(matrix[i][k], v) for k, v in values.items()])
    return result


def _input_groups(target: Target, n: int) -> tuple[tuple[int, ...], ...]:
    """Rows of V to make together: each group's n values a row must fit the registers."""
    if target.registers > 16:
        return ((1, 2, 3, 4), (0, 5)) if n == 6 else ((0, 1, 2, 3),)
    return ((1, 2), (3, 4), (0,), (5,)) if n == 6 else ((1, 2), (0, 3))


def _output_groups(target: Target, m: int) -> tuple[tuple[int, ...], ...]:
    return ((0, 2), (1, 3)) if target.registers <= 16 and m == 4 else (tuple(range(m)),)


def input_transform(target: Target, m: int) -> Any:
    """The intrinsic ``transform(addresses, blocks, v, v_block, v_point)``: V = B^T x B for a tile of n x n pixels.

    addresses: where the pixels' first channels are, int64. blocks: how many vectors of channels (at least 1).
    v: where the first vector of the first point goes, blocks ``v_block`` and points ``v_point`` bytes apart.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    matrix = minimal(m).input
    n = len(matrix)

    def body(builder: Any, args: list[Any]) -> None:
        addresses, blocks, v, v_block, v_point = args
        columns = [builder.mul(v_point, I64(j)) for j in range(n)]
        loop = CountedLoop(builder, blocks, [byte_offset(builder, v, 0)])
        channel = builder.mul(loop.index, I64(4 * lanes))

        def pixel(j: int, i: int) -> Any:
            address = load_at(builder, byte_offset(builder, addresses, 8 * (i * n + j)), I64, align=8)
            return load_at(builder, byte_offset(builder, address, channel), vector)

        for group in _input_groups(target, n):
            down = [_input_rows(builder, target, matrix, group, functools.partial(pixel, j)) for j in range(n)]
            for i in group:
                point_row = byte_offset(builder, loop.carried[0], builder.mul(v_point, I64(i * n)))
                along = _input_rows(builder, target, matrix, range(n), [column[i] for column in down].__getitem__)
                for j, value in along.items():
                    store_at(builder, value, byte_offset(builder, point_row, columns[j]))
        loop.end([byte_offset(builder, loop.carried[0], v_block)])

    return micro_kernel(f"winograd_input_{m}", 5, body)


def output_transform(target: Target, m: int, nv: int, epilogue: str) -> Any:
    """The intrinsic ``transform(products, vectors, bias, y, row, pixel, residual)``: A^T M A through the epilogue.

    products: M of one tile, [point][nv * lanes]. vectors: how many vectors of filters (1 to nv). bias: as many
    floats. y: the tile's first pixel, rows ``row`` bytes and pixels ``pixel`` bytes apart; residual likewise.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    vector_bytes = 4 * lanes
    matrix = minimal(m).output
    n = len(matrix[0])
    parsed = Epilogue.parse(epilogue)

    def body(builder: Any, args: list[Any]) -> None:
        products, vectors, bias, y, row, pixel, residual = args
        loop = CountedLoop(builder, vectors, [byte_offset(builder, p, 0) for p in (products, bias, y, residual)])
        source, bias_pointer, place, other = loop.carried
        shift = load_at(builder, bias_pointer, vector)

        def product(j: int, i: int) -> Any:
            return load_at(builder, byte_offset(builder, source, (i * n + j) * nv * vector_bytes), vector)

        for group in _output_groups(target, m):
            down = [_output_rows(builder, target, matrix, group, functools.partial(product, j)) for j in range(n)]
            for i in group:
                along = _output_rows(builder, target, matrix, range(m), [column[i] for column in down].__getitem__)
                for j, value in along.items():
                    offset = builder.add(builder.mul(row, I64(i)), builder.mul(pixel, I64(j)))
                    store_finished(builder, target, parsed, builder.fadd(value, shift), place, other, offset)
        loop.end([byte_offset(builder, pointer, vector_bytes) for pointer in loop.carried])

    return micro_kernel(f"winograd_output_{m}", 7, body)
