"""Intrinsics for the team that runs a plan: atomics, waiting, calls through addresses, the cycle counter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, I64, build_intrinsic, call_intrinsic

__all__ = ["atomic_add", "atomic_load", "atomic_store", "call_kernel", "call_yield", "cycles", "futex",
           "make_pause"]

_WORD = types.int64


def _pointer(builder: Any, address: Any, kind: ir.Type = I64) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _call(builder: Any, address: Any, arguments: list[Any], result: ir.Type) -> Any:
    function = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(builder.inttoptr(address, function.as_pointer()), arguments)


def _call_kernel(builder: Any, a: list[Any]) -> None:
    _call(builder, a[0], a[1:], ir.VoidType())


def _atomic_store(builder: Any, a: list[Any]) -> None:
    builder.store_atomic(a[1], _pointer(builder, a[0]), "release", 8)


def _call_yield(builder: Any, a: list[Any]) -> None:
    _call(builder, a[0], [], I32)


call_kernel = build_intrinsic(types.void, [_WORD] * 4, _call_kernel)
"""call_kernel(function, args, tid, nthreads)"""
call_yield = build_intrinsic(types.void, [_WORD], _call_yield)
"""call_yield(address of sched_yield)"""
futex = build_intrinsic(_WORD, [_WORD] * 7, lambda b, a: _call(b, a[0], a[1:], I64))
"""futex(address of syscall, number, word, operation, value, timeout, unused)"""
atomic_add = build_intrinsic(_WORD, [_WORD] * 2, lambda b, a: b.atomic_rmw("add", _pointer(b, a[0]), a[1], "seq_cst"))
"""atomic_add(address, value) -> the value before"""
atomic_load = build_intrinsic(_WORD, [_WORD], lambda b, a: b.load_atomic(_pointer(b, a[0]), "seq_cst", 8))
atomic_store = build_intrinsic(types.void, [_WORD] * 2, _atomic_store)
cycles = build_intrinsic(_WORD, [types.int64], lambda b, a: call_intrinsic(b, "llvm.readcyclecounter", I64, []))
"""cycles(0) -> the processor's time-stamp counter (the argument is ignored)"""


def make_pause(target: Target) -> Any:
    """The intrinsic ``pause(0)``: tell the processor that this thread waits in a loop."""

    def generate(builder: Any, a: list[Any]) -> None:
        if target.triple.startswith("x86_64"):
            call_intrinsic(builder, "llvm.x86.sse2.pause", ir.VoidType(), [])
        else:
            builder.asm(ir.FunctionType(ir.VoidType(), []), "yield", "", [], side_effect=True)

    return build_intrinsic(types.void, [_WORD], generate)
