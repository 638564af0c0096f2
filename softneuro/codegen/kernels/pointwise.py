"""A pointwise program over broadcast inputs in one pass: rows of ``inner`` elements, dense in the output.

The output is walked as [d0][d1][d2][inner]; every input has a stride in bytes for each of the three outer axes, and
along ``inner`` it is dense or one value a row.

Words: 0 d0, 1 d1, 2 d2, 3 inner, 4 y, then for every input its address and its three strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.pointwise_emit import element_bytes, from_memory, memory_type, program_value, to_memory
from softneuro.codegen.target import Target
from softneuro.codegen.vector import call_intrinsic, first_lanes, splat_value
from softneuro.ops.pointwise import TypedInstruction, typed_program
from softneuro.types import DType

__all__ = ["make"]

_INPUT_WORDS = 5  # where the words of the first input start


def make(target: Target, program: str, inputs: str) -> Callable[[int, int, int], None]:
    """The kernel of a program. inputs: ``f32:dense,bool:row``, how each input is read along a row."""
    kinds = [(dtype, access == "dense") for dtype, _, access in (part.partition(":") for part in inputs.split(","))]
    typed = typed_program(program, tuple(DType(dtype) for dtype, _ in kinds))
    block = _block(target, typed, kinds)
    lanes = target.f32_lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        d1, d2, inner = load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        vectors = (inner + lanes - 1) // lanes
        units = load_i64(args, 0) * d1 * d2 * vectors
        unit, end = units * tid // nthreads, units * (tid + 1) // nthreads
        while unit < end:
            row = unit // vectors
            first = unit - row * vectors
            i2 = row % d2
            i1 = row // d2 % d1
            i0 = row // d2 // d1
            whole = (end - unit) // vectors
            if first == 0 and whole > 0:
                rows = min(d2 - i2, whole)
                block(args, i0, i1, i2, rows, 0, inner)
                unit += rows * vectors
            else:
                part = min(vectors - first, end - unit)
                start = first * lanes
                block(args, i0, i1, i2, 1, start, min(part * lanes, inner - start))
                unit += part

    return kernel


def _block(target: Target, program: Sequence[TypedInstruction], kinds: Sequence[tuple[str, bool]]) -> Any:
    """The intrinsic ``block(args, i0, i1, i2, rows, start, count)``: elements start.. of rows i2.. of (i0, i1)."""
    lanes = target.f32_lanes
    result = str(program[-1].result)

    def vector_of(dtype: str) -> ir.Type:
        return ir.VectorType(memory_type(dtype), lanes)

    def body(builder: Any, arguments: list[Any]) -> None:
        args, i0, i1, i2, rows, start, count = arguments

        def word(index: int) -> Any:
            return load_at(builder, byte_offset(builder, args, 8 * index), I64, 8)

        def along(index: int) -> Any:
            strides = (word(index + 1 + axis) for axis in range(3))
            first, second, third = (builder.mul(i, s) for i, s in zip((i0, i1, i2), strides, strict=True))
            return builder.add(builder.add(first, second), third)

        row = builder.add(builder.mul(builder.add(builder.mul(i0, word(1)), i1), word(2)), i2)
        inner = word(3)
        place = builder.mul(builder.add(builder.mul(row, inner), start), I64(element_bytes(result)))
        pointers, steps = [byte_offset(builder, word(4), place)], [builder.mul(inner, I64(element_bytes(result)))]
        for index, (dtype, dense) in enumerate(kinds):
            offset = along(_INPUT_WORDS + 4 * index)
            if dense:
                offset = builder.add(offset, builder.mul(start, I64(element_bytes(dtype))))
            pointers.append(byte_offset(builder, word(_INPUT_WORDS + 4 * index), offset))
            steps.append(word(_INPUT_WORDS + 4 * index + 3))
        loop = CountedLoop(builder, rows, pointers)
        _row(builder, loop.carried[0], loop.carried[1:], count)
        loop.end([byte_offset(builder, p, s) for p, s in zip(loop.carried, steps, strict=True)])

    def _row(builder: Any, y: Any, sources: list[Any], count: Any) -> None:
        rows = [None if dense else splat_value(builder, load_at(builder, pointer, memory_type(dtype), 1), lanes)
                for pointer, (dtype, dense) in zip(sources, kinds, strict=True)]

        def elements(place: Any, mask: Any = None) -> None:
            values = [
                row if row is not None
                else _load(builder, _element(builder, pointer, place, dtype), vector_of(dtype), mask)
                for row, pointer, (dtype, _) in zip(rows, sources, kinds, strict=True)
            ]
            inputs = [from_memory(builder, d, v) for v, (d, _) in zip(values, kinds, strict=True)]
            value = to_memory(builder, result, program_value(builder, target, program, inputs, lanes))
            _store(builder, value, _element(builder, y, place, result), mask)

        groups = builder.ashr(count, I64(lanes.bit_length() - 1))

        def whole(values: list[Any]) -> list[Any]:
            loop = CountedLoop(builder, groups, [])
            elements(builder.mul(loop.index, I64(lanes)))
            loop.end([])
            return values

        def rest(values: list[Any]) -> list[Any]:
            elements(done, first_lanes(builder, builder.sub(count, done), lanes))
            return values

        done = builder.mul(groups, I64(lanes))
        conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
        conditional(builder, builder.icmp_signed("<", done, count), [], rest)

    return micro_kernel("pointwise_block", 7, body)


def _element(builder: Any, pointer: Any, index: Any, dtype: str) -> Any:
    return byte_offset(builder, pointer, builder.mul(index, I64(element_bytes(dtype))))


def _suffix(vector: Any) -> str:
    element = vector.element
    return f"v{vector.count}{'f32' if isinstance(element, ir.FloatType) else f'i{element.width}'}.p0"


def _load(builder: Any, pointer: Any, vector: Any, mask: Any) -> Any:
    """A vector, or with a mask only its lanes (the others are 0)."""
    if mask is None:
        return load_at(builder, pointer, vector, 1)
    arguments = [builder.bitcast(pointer, vector.as_pointer()), ir.IntType(32)(1), mask, ir.Constant(vector, None)]
    return call_intrinsic(builder, f"llvm.masked.load.{_suffix(vector)}", vector, arguments)


def _store(builder: Any, value: Any, pointer: Any, mask: Any) -> None:
    """Store a vector, or with a mask only its lanes."""
    if mask is None:
        store_at(builder, value, pointer, 1)
        return
    arguments = [value, builder.bitcast(pointer, value.type.as_pointer()), ir.IntType(32)(1), mask]
    call_intrinsic(builder, f"llvm.masked.store.{_suffix(value.type)}", ir.VoidType(), arguments)
