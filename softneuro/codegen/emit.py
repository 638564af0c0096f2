"""Helpers to emit LLVM IR by hand: outlined functions, counted loops, typed loads and stores, prefetches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.vector import F32, I32, build_intrinsic, call_intrinsic, masked_load, masked_store, splat_value

__all__ = ["CountedLoop", "byte_offset", "load_at", "load_lanes", "micro_kernel", "prefetch_line", "splat_at", "store_at",
           "store_lanes"]

I8, I64 = ir.IntType(8), ir.IntType(64)
Body = Callable[[Any, list[Any]], None]


def micro_kernel(name: str, arguments: int, body: Body) -> Any:
    """A numba intrinsic of ``arguments`` int64 that calls a separate, never inlined LLVM function.

    Inlining several tiles into one loop costs up to a third of their speed to spills, and the call costs nothing
    that can be measured. ``body(builder, args)`` emits the function and may leave the builder in another block.
    """

    def generate(builder: Any, args: list[Any]) -> None:
        module = builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * arguments), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            function.attributes.add("nounwind")
            inner = ir.IRBuilder(function.append_basic_block("entry"))
            body(inner, list(function.args))
            inner.ret_void()
        builder.call(function, args)

    return build_intrinsic(types.void, [types.int64] * arguments, generate)


def byte_offset(builder: Any, address: Any, offset: Any) -> Any:
    """The pointer ``address + offset`` bytes; both int64 values, or offset a Python int."""
    pointer = builder.inttoptr(address, I8.as_pointer()) if address.type == I64 else address
    return builder.gep(pointer, [I64(offset) if isinstance(offset, int) else offset])


def load_at(builder: Any, pointer: Any, kind: ir.Type, align: int = 4) -> Any:
    """Load a value of ``kind`` from a byte pointer."""
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def store_at(builder: Any, value: Any, pointer: Any, align: int = 4) -> None:
    """Store a value to a byte pointer."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def load_lanes(builder: Any, pointer: Any, vector: Any, mask: Any, align: int = 4) -> Any:
    """Load a vector type from a byte pointer; with a mask (not None), only its lanes are read and the others are 0."""
    if mask is None:
        return load_at(builder, pointer, vector, align)
    return masked_load(builder, pointer, vector, mask, align=align)


def store_lanes(builder: Any, value: Any, pointer: Any, mask: Any, align: int = 4) -> None:
    """Store a vector to a byte pointer; with a mask (not None), only its lanes."""
    if mask is None:
        store_at(builder, value, pointer, align)
    else:
        masked_store(builder, value, pointer, mask, align)


def splat_at(builder: Any, pointer: Any, lanes: int) -> Any:
    """The float32 at a byte pointer in every lane of a vector."""
    return splat_value(builder, load_at(builder, pointer, F32), lanes)


def prefetch_line(builder: Any, pointer: Any, locality: int = 2) -> None:
    """Ask for the cache line at a byte pointer, to be read: in the second-level cache, or the first for locality 3."""
    call_intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, I32(0), I32(locality), I32(1)])


class CountedLoop:
    """A do-while loop ``for i in range(0, count)`` with carried values; ``count`` must be at least 1.

    Emit the body between construction and `end`; afterwards `carried` holds the final values.
    """

    def __init__(self, builder: Any, count: Any, initial: Sequence[Any]) -> None:
        self._builder = builder
        self._count = count
        entry = builder.block
        self._head = builder.append_basic_block("loop")
        builder.branch(self._head)
        builder.position_at_end(self._head)
        self.index = builder.phi(I64)
        self.index.add_incoming(I64(0), entry)
        self.carried = [builder.phi(value.type) for value in initial]
        for phi, value in zip(self.carried, initial, strict=True):
            phi.add_incoming(value, entry)

    def end(self, updated: Sequence[Any]) -> None:
        """Close the loop; ``updated`` are the carried values of the next round."""
        builder = self._builder
        following = builder.add(self.index, I64(1))
        last = builder.block
        self.index.add_incoming(following, last)
        for phi, value in zip(self.carried, updated, strict=True):
            phi.add_incoming(value, last)
        after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", following, self._count), self._head, after)
        builder.position_at_end(after)
        self.carried = list(updated)
