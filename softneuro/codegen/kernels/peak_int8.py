"""How fast this machine multiplies 8-bit integers: independent chains of dot products that never leave the registers.

Words: 0 steps (at least 1), 1 factors (four uint8, four int8), 2 sink (64 bytes for each thread).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target
from softneuro.codegen.vector import I32, call_intrinsic, splat_value

__all__ = ["make"]

_SINK_BYTES = 64
_I8, _I16 = ir.IntType(8), ir.IntType(16)
_TWO_STEPS = {
    128: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    256: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    512: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}
"""Products of bytes summed in pairs to 16 bits, and those in pairs to 32 bits, by vector width."""


def make(target: Target, chains: int, dot: bool) -> Callable[[int, int, int], None]:
    """Every thread does ``steps`` times ``chains`` vectors of four products a lane, summed in 32 bits.

    dot: with one instruction, vpdpbusd (AVX512-VNNI or AVX-VNNI, which the target must have), each chain being
    ``x = x + a . b`` from 0; else with two instructions and an addition, vpmaddubsw, vpmaddwd and vpaddd, as
    ``x = x + x . b`` from a (the bytes of x taken for a: products of what stays the same would be computed once).
    The sum of all chains goes to the thread's place in the sink, so that no chain can be left out.
    """
    lanes = target.f32_lanes
    sums = ir.VectorType(I32, lanes)

    def in_one(builder: Any, value: Any, a: Any, b: Any) -> Any:
        return call_intrinsic(builder, f"llvm.x86.avx512.vpdpbusd.{target.vector_bits}", sums, [value, a, b])

    def in_two(builder: Any, value: Any, a: Any, b: Any) -> Any:
        nbytes, pairs = ir.VectorType(_I8, 4 * lanes), ir.VectorType(_I16, 2 * lanes)
        to_pairs, to_sums = _TWO_STEPS[target.vector_bits]
        products = call_intrinsic(builder, to_pairs, pairs, [builder.bitcast(value, nbytes), builder.bitcast(b, nbytes)])
        return builder.add(value, call_intrinsic(builder, to_sums, sums, [products, ir.Constant(pairs, [1] * 2 * lanes)]))

    step = in_one if dot else in_two

    def body(builder: Any, args: list[Any]) -> None:
        steps, factors, sink = args
        a, b = (splat_value(builder, load_at(builder, byte_offset(builder, factors, 4 * i), I32), lanes) for i in range(2))
        first = ir.Constant(sums, [0] * lanes) if dot else a
        loop = CountedLoop(builder, steps, [first] * chains)
        loop.end([step(builder, value, a, b) for value in loop.carried])
        total = functools.reduce(builder.add, loop.carried)
        store_at(builder, builder.extract_element(total, I64(0)), byte_offset(builder, sink, 0))

    tile = micro_kernel(f"peak_int8_{chains}_{int(dot)}", 3, body)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        tile(load_i64(args, 0), load_i64(args, 1), load_i64(args, 2) + tid * _SINK_BYTES)

    return kernel
