"""How fast this machine multiplies bfloat16: independent chains of dot products of pairs that never leave the registers.

Words: 0 steps (at least 1), 1 factors (two pairs of bfloat16), 2 sink (64 bytes for each thread).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic, splat_value

__all__ = ["make"]

_SINK_BYTES = 64


def make(target: Target, chains: int) -> Callable[[int, int, int], None]:
    """Every thread does ``steps`` times ``chains`` vector instructions vdpbf16ps (AVX512-BF16), which the target must
    have; each chain is ``x = x + a0 * b0 + a1 * b1`` in float32 from 0.

    The sum of all chains goes to the thread's place in the sink, so that no chain can be left out.
    """
    lanes = target.f32_lanes
    sums = ir.VectorType(F32, lanes)
    intrinsic = f"llvm.x86.avx512bf16.dpbf16ps.{target.vector_bits}"

    def body(builder: Any, args: list[Any]) -> None:
        steps, factors, sink = args
        a, b = (splat_value(builder, load_at(builder, byte_offset(builder, factors, 4 * i), I32), lanes) for i in range(2))
        loop = CountedLoop(builder, steps, [ir.Constant(sums, [0.0] * lanes)] * chains)
        loop.end([call_intrinsic(builder, intrinsic, sums, [value, a, b]) for value in loop.carried])
        total = functools.reduce(builder.fadd, loop.carried)
        store_at(builder, builder.extract_element(total, I64(0)), byte_offset(builder, sink, 0))

    tile = micro_kernel(f"peak_bf16_{chains}", 3, body)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        tile(load_i64(args, 0), load_i64(args, 1), load_i64(args, 2) + tid * _SINK_BYTES)

    return kernel
