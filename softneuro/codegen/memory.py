"""Scalar intrinsics on raw addresses for use inside kernels: loads, stores.

All addresses and sizes are int64 (numba turns uint64 + int64 into a float, so unsigned addresses are not used).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = ["load_f32", "load_i32", "load_i64", "store_f32", "store_i64"]

I32, I64 = ir.IntType(32), ir.IntType(64)


def _load(llvm_type: ir.Type, numba_type: types.Type) -> Any:
    def load(typingctx: Any, base: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], llvm_type.as_pointer()), [args[1]])
            value = builder.load(pointer)
            return builder.sext(value, I64) if llvm_type == I32 else value

        return numba_type(types.int64, types.int64), generate

    return intrinsic(load)


def _store(llvm_type: ir.Type, numba_type: types.Type) -> Any:
    def store(typingctx: Any, base: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], llvm_type.as_pointer()), [args[1]])
            builder.store(args[2], pointer)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, numba_type), generate

    return intrinsic(store)


load_i64 = _load(I64, types.int64)
load_i32 = _load(I32, types.int64)  # widened
load_f32 = _load(ir.FloatType(), types.float32)
store_i64 = _store(I64, types.int64)
store_f32 = _store(ir.FloatType(), types.float32)
