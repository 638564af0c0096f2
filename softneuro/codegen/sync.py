"""Intrinsics for the team that runs a plan: atomics, waiting, calls through addresses, counters, denormal numbers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, I64, build_intrinsic, call_intrinsic

__all__ = ["atomic_add", "atomic_load", "atomic_store", "call_kernel", "call_yield", "cycles", "futex",
           "make_flush", "make_pause", "make_restore", "make_ticks"]

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


def make_ticks(target: Target) -> Any:
    """The intrinsic ``ticks(0)``: a counter that runs at a constant rate, of nanoseconds to tens of them."""
    name = "llvm.readcyclecounter" if target.triple.startswith("x86_64") else "llvm.readsteadycounter"
    return build_intrinsic(_WORD, [_WORD], lambda b, a: call_intrinsic(b, name, I64, []))


_MXCSR_FLUSH = 0x8040
"""Flush to zero (bit 15) and denormals are zeros (bit 6)."""
_FPCR_FLUSH = 1 << 24
"""Flush to zero, of inputs and results."""


def _read_mode(builder: Any, target: Target) -> Any:
    """The register that says how this thread computes with floating-point numbers."""
    if not target.triple.startswith("x86_64"):
        return call_intrinsic(builder, "llvm.aarch64.get.fpcr", I64, [])
    slot = cgutils.alloca_once(builder, I32)
    call_intrinsic(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), [slot])
    return builder.zext(builder.load(slot), I64)


def _write_mode(builder: Any, target: Target, mode: Any) -> None:
    if not target.triple.startswith("x86_64"):
        call_intrinsic(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), [mode])
        return
    slot = cgutils.alloca_once(builder, I32)
    builder.store(builder.trunc(mode, I32), slot)
    call_intrinsic(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [slot])


def make_flush(target: Target) -> Any:
    """The intrinsic ``flush(0)``: from now on this thread takes denormal numbers for zeros; returns the mode before."""
    bits = _MXCSR_FLUSH if target.triple.startswith("x86_64") else _FPCR_FLUSH

    def generate(builder: Any, a: list[Any]) -> Any:
        before = _read_mode(builder, target)
        _write_mode(builder, target, builder.or_(before, I64(bits)))
        return before

    return build_intrinsic(_WORD, [_WORD], generate)


def make_restore(target: Target) -> Any:
    """The intrinsic ``restore(mode)``: back to the mode that `make_flush`'s intrinsic returned."""
    return build_intrinsic(types.void, [_WORD], lambda b, a: _write_mode(b, target, a[0]))
