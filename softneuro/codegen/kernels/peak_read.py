"""How fast this machine reads memory: every thread sums its part of a buffer, again and again.

Words: 0 buffer, 1 steps of one pass (at least 1), 2 passes, 3 sink (64 bytes for each thread).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32

__all__ = ["make"]

_SINK_BYTES = 64


def make(target: Target, loads: int) -> Callable[[int, int, int], None]:
    """A step reads ``loads`` vectors one after the other, each into an accumulator of its own.

    Thread ``tid`` reads ``steps`` steps from ``buffer + tid * steps * loads * vector bytes``. The sum of the first
    lanes of all accumulators goes to the thread's place in the sink.
    """
    lanes = target.f32_lanes
    vector = ir.VectorType(F32, lanes)
    step_bytes = loads * lanes * 4

    def body(builder: Any, args: list[Any]) -> None:
        start, steps, passes, sink = args
        again = CountedLoop(builder, passes, [ir.Constant(vector, [0.0] * lanes)] * loads)
        loop = CountedLoop(builder, steps, again.carried)
        place = byte_offset(builder, start, builder.mul(loop.index, I64(step_bytes)))
        found = [load_at(builder, byte_offset(builder, place, 4 * lanes * i), vector) for i in range(loads)]
        loop.end([builder.fadd(value, more) for value, more in zip(loop.carried, found, strict=True)])
        again.end(loop.carried)
        total = functools.reduce(builder.fadd, again.carried)
        store_at(builder, builder.extract_element(total, I64(0)), byte_offset(builder, sink, 0))

    tile = micro_kernel(f"peak_read_{loads}", 4, body)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        steps = load_i64(args, 1)
        tile(load_i64(args, 0) + tid * steps * step_bytes, steps, load_i64(args, 2), load_i64(args, 3) + tid * _SINK_BYTES)

    return kernel
