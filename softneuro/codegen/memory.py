"""Scalar intrinsics on raw addresses for use inside kernels: loads, stores, prefetch.

All addresses and sizes are int64 (numba turns uint64 + int64 into a float, so unsigned addresses are not used).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["load_f32", "load_i32", "load_i64", "load_u8", "prefetch", "store_f32", "store_i32", "store_i64",
           "store_u8"]

I64 = ir.IntType(64)


def _load(llvm_type: ir.Type, numba_type: types.Type, widen: str = "") -> Any:
    def load(typingctx: Any, base: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], llvm_type.as_pointer()), [args[1]])
            value = builder.load(pointer)
            return getattr(builder, widen)(value, I64) if widen else value

        return numba_type(types.int64, types.int64), generate

    return intrinsic(load)


def _store(llvm_type: ir.Type, numba_type: types.Type, narrow: bool = False) -> Any:
    def store(typingctx: Any, base: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], llvm_type.as_pointer()), [args[1]])
            builder.store(builder.trunc(args[2], llvm_type) if narrow else args[2], pointer)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, numba_type), generate

    return intrinsic(store)


load_i64 = _load(I64, types.int64)
load_i32 = _load(ir.IntType(32), types.int64, "sext")  # element index, widened to int64
load_u8 = _load(ir.IntType(8), types.int64, "zext")
load_f32 = _load(ir.FloatType(), types.float32)
store_i64 = _store(I64, types.int64)
store_i32 = _store(ir.IntType(32), types.int64, narrow=True)
store_u8 = _store(ir.IntType(8), types.int64, narrow=True)
store_f32 = _store(ir.FloatType(), types.float32)


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at ``address`` in the second-level cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer_type = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer_type, flag, flag, flag]), "llvm.prefetch.p0"
        )
        builder.call(function, [builder.inttoptr(args[0], pointer_type), flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate
