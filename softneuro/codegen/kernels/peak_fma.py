"""How fast this machine multiplies and adds: independent chains of float32 FMAs that never leave the registers.

Words: 0 steps (at least 1), 1 factor and addend (two float32), 2 sink (64 bytes for each thread).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, micro_kernel, splat_at, store_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, fma_value

__all__ = ["make"]

_SINK_BYTES = 64


def make(target: Target, chains: int) -> Callable[[int, int, int], None]:
    """Every thread does ``steps`` times ``chains`` vector FMAs; each chain is ``x = x * factor + addend`` from 0.

    The sum of all chains goes to the thread's place in the sink, so that no chain can be left out.
    """
    lanes = target.f32_lanes

    def body(builder: Any, args: list[Any]) -> None:
        steps, numbers, sink = args
        factor, addend = (
            splat_at(builder, byte_offset(builder, numbers, 4 * i), lanes) for i in range(2)
        )
        zero = ir.Constant(ir.VectorType(F32, lanes), [0.0] * lanes)
        loop = CountedLoop(builder, steps, [zero] * chains)
        loop.end([fma_value(builder, target, value, factor, addend) for value in loop.carried])
        total = functools.reduce(builder.fadd, loop.carried)
        store_at(builder, builder.extract_element(total, I64(0)), byte_offset(builder, sink, 0))

    tile = micro_kernel(f"peak_fma_{chains}", 3, body)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        tile(load_i64(args, 0), load_i64(args, 1), load_i64(args, 2) + tid * _SINK_BYTES)

    return kernel
