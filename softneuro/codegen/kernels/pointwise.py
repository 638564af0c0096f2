"""A pointwise program over broadcast inputs in one pass: rows of ``inner`` elements, dense in the output.

The output is walked as [d0][d1][d2][inner]; every input has a stride in bytes for each axis, and along ``inner`` it is
dense or one value a row (stride 0). The kernel has a variant for each of these cases, so that it serves all shapes.

Words: 0 d0, 1 d1, 2 d2, 3 inner, 4 y, then for every input its address and its four strides; for tensors kept in fewer bits
also the address of float32 scale and zero point of every input, then of y (read for qint8 only).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.branch import conditional
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, load_lanes, micro_kernel, store_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.pointwise_emit import element_bytes, from_memory, memory_type, program_value, to_memory
from softneuro.codegen.storage import STORED_BYTES, Numbers, load_stored, quantisation_numbers, store_stored
from softneuro.codegen.target import Target
from softneuro.codegen.vector import first_lanes, splat_value
from softneuro.ops.pointwise import TypedInstruction, typed_program
from softneuro.types import DType

__all__ = ["make"]

_FIRST_INPUT = 5  # where the words of the first input start
_INPUT_WORDS = 5
_MOST_SPELLED_OUT = 3  # inputs: above, there is a variant for all of them dense and one for everything else
Reader = Callable[[Any, Any], Any]
"""read(place, mask): the vector of elements from ``place``."""


def make(target: Target, program: str, inputs: str, found: str = "", wanted: str = "") -> Callable[[int, int, int], None]:
    """The kernel of a program. inputs: the data types of the inputs, as in ``f32,bool``.

    found, wanted: what the inputs and y are kept as where that is not their data type: ``bf16,f32`` and ``qint8``. Inputs
    kept in fewer bits are dense along ``inner``.
    """
    dtypes = inputs.split(",")
    typed = typed_program(program, tuple(map(DType, dtypes)))
    block = _block(target, typed, dtypes, found.split(",") if found else dtypes, wanted or str(typed[-1].result))
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


def _accesses(inputs: int) -> Mapping[int, tuple[bool | None, ...]]:
    """How the inputs of each variant are read: True dense, False one value a row, None whichever it is.

    A variant's number has bit i set when input i has one value a row; -1 is any number that is not there.
    """
    if inputs > _MOST_SPELLED_OUT:
        return {0: (True,) * inputs, -1: (None,) * inputs}
    return {number: tuple(not number >> i & 1 for i in range(inputs)) for number in range(2**inputs - 1)}


def _block(target: Target, program: Sequence[TypedInstruction], dtypes: Sequence[str], found: Sequence[str], wanted: str) -> Any:
    """The intrinsic ``block(args, i0, i1, i2, rows, start, count)``: elements start.. of rows i2.. of (i0, i1)."""
    block = _Block(target, program, dtypes, found, wanted)
    accesses = _accesses(len(dtypes))

    def body(builder: Any, arguments: list[Any]) -> None:
        args, i0, i1, i2, rows, start, count = arguments
        spreads = [builder.alloca(kind) for kind in block.kinds] if -1 in accesses else [None] * len(dtypes)

        def word(index: int) -> Any:
            return load_at(builder, byte_offset(builder, args, 8 * index), I64, 8)

        block.read_numbers(builder, word)
        places = block.places(builder, word, (i0, i1, i2, start))
        strides = [word(first + 4) for first in block.firsts]
        number = _variant(builder, strides, accesses)
        for variant, access in accesses.items():
            with builder.if_then(builder.icmp_signed("==", number, I64(variant))):
                loop = CountedLoop(builder, rows, [pointer for pointer, _ in places])
                y, *sources = loop.carried
                readers = [block.reader(builder, index, *input_) for index, input_ in
                           enumerate(zip(access, sources, strides, spreads, strict=True))]
                block.row(builder, y, readers, count)
                loop.end([byte_offset(builder, p, step) for p, (_, step) in zip(loop.carried, places, strict=True)])

    return micro_kernel("pointwise_block", 7, body)


class _Block:
    """The emitters of a program on inputs of the given data types.

    found, wanted: what the inputs and the result are kept as. kinds: the vectors that are read of each input; firsts: where
    each input's words start.
    """

    def __init__(self, target: Target, program: Sequence[TypedInstruction], dtypes: Sequence[str], found: Sequence[str],
                 wanted: str) -> None:
        self._target, self._lanes, self._program, self._dtypes = target, target.f32_lanes, program, dtypes
        self._result = str(program[-1].result)
        self._found, self._wanted = found, wanted
        self._numbers: list[Numbers | None] = [None] * (len(dtypes) + 1)
        self.kinds = [ir.VectorType(memory_type(dtype), self._lanes) for dtype in dtypes]
        self.firsts = [_FIRST_INPUT + _INPUT_WORDS * index for index in range(len(dtypes))]

    def read_numbers(self, builder: Any, word: Callable[[int], Any]) -> None:
        """Read the quantisations of inputs and result; to be emitted before all else."""
        for index, dtype in enumerate((*self._found, self._wanted)):
            if dtype == "qint8":
                place = byte_offset(builder, word(_FIRST_INPUT + _INPUT_WORDS * len(self._found)), 8 * index)
                self._numbers[index] = quantisation_numbers(builder, place, self._lanes)

    def places(self, builder: Any, word: Callable[[int], Any], position: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Byte pointers to element ``position`` (i0, i1, i2, inner) of the output and all inputs, and bytes to the next
        row of each."""
        i0, i1, i2, start = position
        row = builder.add(builder.mul(builder.add(builder.mul(i0, word(1)), i1), word(2)), i2)
        inner, size = word(3), I64(_kept_bytes(self._wanted))
        offset = builder.mul(builder.add(builder.mul(row, inner), start), size)
        found = [(byte_offset(builder, word(4), offset), builder.mul(inner, size))]
        for first in self.firsts:
            strides = (word(first + 1 + axis) for axis in range(4))
            parts = [builder.mul(i, stride) for i, stride in zip(position, strides, strict=True)]
            place = byte_offset(builder, word(first), functools.reduce(builder.add, parts))
            found.append((place, word(first + 3)))
        return found

    def reader(self, builder: Any, index: int, dense: bool | None, pointer: Any, stride: Any, spread: Any) -> Reader:
        """How a row's vectors of an input are read; where only the run knows, one value is spread in memory and read again."""
        dtype, found = self._dtypes[index], self._found[index]
        kind = ir.VectorType(memory_type(dtype), self._lanes)
        if found != dtype:
            return lambda place, mask: load_stored(builder, self._target, _element(builder, pointer, place, found), found,
                                                   self._lanes, mask, self._numbers[index])

        def splat() -> Any:
            return splat_value(builder, load_at(builder, pointer, memory_type(dtype), 1), self._lanes)

        if dense is False:
            value = splat()
            return lambda place, mask: value
        if dense:
            return lambda place, mask: load_lanes(builder, _element(builder, pointer, place, dtype), kind, mask, 1)

        def fill(_: list[Any]) -> list[Any]:
            builder.store(splat(), spread)
            return [builder.bitcast(spread, pointer.type)]

        (origin,) = conditional(builder, builder.icmp_signed("==", stride, I64(0)), [pointer], fill)
        return lambda place, mask: load_lanes(builder, byte_offset(builder, origin, builder.mul(place, stride)), kind,
                                              mask, 1)

    def _elements(self, builder: Any, y: Any, readers: Sequence[Reader], place: Any, mask: Any = None) -> None:
        """One vector of the row, from element ``place`` on."""
        inputs = [from_memory(builder, dtype, read(place, mask))
                  for dtype, read in zip(self._dtypes, readers, strict=True)]
        value = program_value(builder, self._target, self._program, inputs, self._lanes)
        pointer = _element(builder, y, place, self._wanted)
        if self._wanted != self._result:
            store_stored(builder, self._target, value, pointer, self._wanted, mask, self._numbers[-1], tiny=False)
        else:
            store_lanes(builder, to_memory(builder, self._result, value), pointer, mask, 1)

    def row(self, builder: Any, y: Any, readers: Sequence[Reader], count: Any) -> None:
        """``count`` elements of a row: whole vectors, then a masked one."""
        lanes = self._lanes
        groups = builder.ashr(count, I64(lanes.bit_length() - 1))

        def whole(values: list[Any]) -> list[Any]:
            loop = CountedLoop(builder, groups, [])
            self._elements(builder, y, readers, builder.mul(loop.index, I64(lanes)))
            loop.end([])
            return values

        def rest(values: list[Any]) -> list[Any]:
            self._elements(builder, y, readers, done, first_lanes(builder, builder.sub(count, done), lanes))
            return values

        done = builder.mul(groups, I64(lanes))
        conditional(builder, builder.icmp_signed(">", groups, I64(0)), [], whole)
        conditional(builder, builder.icmp_signed("<", done, count), [], rest)


def _variant(builder: Any, strides: Sequence[Any], known: Container[int]) -> Any:
    """The number of the variant for the inputs' strides along a row; all 0 (the output is one element) counts as dense."""
    number = I64(0)
    for index, stride in enumerate(strides):
        bit = builder.select(builder.icmp_signed("==", stride, I64(0)), I64(1 << index), I64(0))
        number = builder.or_(number, bit)
    number = builder.select(builder.icmp_signed("==", number, I64(2 ** len(strides) - 1)), I64(0), number)
    if -1 not in known:
        return number
    return builder.select(builder.icmp_signed("==", number, I64(0)), number, I64(-1))


def _element(builder: Any, pointer: Any, index: Any, dtype: str) -> Any:
    return byte_offset(builder, pointer, builder.mul(index, I64(_kept_bytes(dtype))))


def _kept_bytes(dtype: str) -> int:
    return STORED_BYTES[dtype] if dtype in STORED_BYTES else element_bytes(dtype)
