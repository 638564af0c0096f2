"""The step that every matrix-product tile repeats: some scalars times some vectors, added to sums in registers.

The scalars are of rows x and the vectors of weights, either side kept as float32 or bfloat16. Where the target multiplies
pairs of bfloat16, a step takes two elements of a row; else bfloat16 is widened to float32 on its way from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I64, CountedLoop, load_at, splat_at
from softneuro.codegen.operands import Operands
from softneuro.codegen.storage import load_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic, fma_value, splat_value

__all__ = ["add_products", "add_step", "repeat_steps", "weights_at"]

Step = Callable[[Any, list[Any], bool], Sequence[Any]]
"""``step(index, carried, half)``: the carried values after a step; half: only its first element is there."""
_I16 = ir.IntType(16)
_HALF_BITS = 16


def weights_at(builder: Any, operands: Operands, pointer: Any) -> Any:
    """The vector of weights at a byte pointer, as `add_step` takes it."""
    lanes = operands.target.f32_lanes
    if operands.in_pairs:
        return load_at(builder, pointer, ir.VectorType(I32, lanes))
    return load_stored(builder, operands.target, pointer, operands.weights, lanes)


def add_step(builder: Any, operands: Operands, rows: Iterable[Any], vectors: Sequence[Any], sums: Sequence[Any],
             half: bool) -> list[Any]:
    """``sums[i * n + j] +`` the products of row i and ``vectors[j]`` in a step, for n vectors.

    rows: byte pointers to where the step is in each. half: only its first element is there.
    """
    target, lanes = operands.target, operands.target.f32_lanes
    if operands.in_pairs:
        return _add_pair_products(builder, (_pair_at(builder, row, lanes, half) for row in rows), vectors, sums)
    if operands.x == "bf16":
        return _add_factors(builder, target, (_widened_at(builder, row, lanes) for row in rows), vectors, sums)
    return add_products(builder, target, rows, vectors, sums)


def add_products(builder: Any, target: Target, scalars: Iterable[Any], vectors: Sequence[Any],
                 sums: Sequence[Any]) -> list[Any]:
    """``sums[i * n + j] + scalar i * vectors[j]`` for n vectors; scalars: byte pointers to float32."""
    factors = (splat_at(builder, pointer, target.f32_lanes) for pointer in scalars)
    return _add_factors(builder, target, factors, vectors, sums)


def repeat_steps(builder: Any, steps: Any, odd: bool, carried: Sequence[Any], step: Step) -> list[Any]:
    """The carried values after ``steps`` (at least 1) steps, of which the last is half a one if ``odd``."""

    def whole(count: Any, values: Sequence[Any]) -> list[Any]:
        loop = CountedLoop(builder, count, values)
        loop.end(step(loop.index, loop.carried, False))
        return list(loop.carried)

    if not odd:
        return whole(steps, carried)
    last = builder.sub(steps, I64(1))
    carried = conditional(builder, builder.icmp_signed(">", last, I64(0)), carried, lambda values: whole(last, values))
    return list(step(last, list(carried), True))


def _add_factors(builder: Any, target: Target, factors: Iterable[Any], vectors: Sequence[Any],
                 sums: Sequence[Any]) -> list[Any]:
    updated: list[Any] = []
    for factor in factors:
        updated += [fma_value(builder, target, factor, v, sums[len(updated) + j]) for j, v in enumerate(vectors)]
    return updated


def _widened_at(builder: Any, pointer: Any, lanes: int) -> Any:
    """The bfloat16 at a byte pointer as float32 in every lane: spread while it is short, which one load does."""
    halves = splat_value(builder, load_at(builder, pointer, _I16, 2), 2 * lanes)
    words = builder.bitcast(halves, ir.VectorType(I32, lanes))
    return builder.bitcast(builder.shl(words, ir.Constant(words.type, [_HALF_BITS] * lanes)), ir.VectorType(F32, lanes))


def _pair_at(builder: Any, pointer: Any, lanes: int, half: bool) -> Any:
    """The pair of bfloat16 at a byte pointer in every lane; ``half``: of the first alone, with 0 as the second."""
    pair = builder.zext(load_at(builder, pointer, _I16, 2), I32) if half else load_at(builder, pointer, I32, 2)
    return splat_value(builder, pair, lanes)


def _add_pair_products(builder: Any, factors: Iterable[Any], vectors: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
    """``sums[i * n + j] +`` both products of pair i and ``vectors[j]`` for n vectors of pairs."""
    updated: list[Any] = []
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * sums[0].type.count}"
    for factor in factors:
        updated += [call_intrinsic(builder, name, sums[0].type, [sums[len(updated) + j], factor, v])
                    for j, v in enumerate(vectors)]
    return updated
