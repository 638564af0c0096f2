"""The machine that code is made for: vector width, registers, and the LLVM names of CPU and features."""

from __future__ import annotations

import functools
from dataclasses import dataclass

__all__ = ["Target", "avx2", "baseline", "host"]


@dataclass(frozen=True)
class Target:
    """What kernels are emitted for.

    vector_bits: width of one vector register; registers: how many of them; fma: whether a fused
    multiply-add instruction exists (without it, multiply and add are emitted); cpu, features: LLVM's names.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    fma: bool

    @property
    def f32_lanes(self) -> int:
        """How many float32 one vector register holds."""
        return self.vector_bits // 32

    @property
    def ticks_of_a_switch(self) -> int:
        """Ticks of the processor's steady counter that only a thread that lost the processor misses (20 microseconds or more)."""
        return 60_000 if self.triple.startswith("x86_64") else 20_000

    def most_rows(self, nv: int) -> int:
        """Rows of the largest tile, nv vectors wide, whose sums fit the registers beside nv operands and a factor."""
        return (self.registers - nv - 1) // nv


_V2 = "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"
_AVX2 = _V2 + ",+avx,+avx2,+fma,+f16c,+bmi,+bmi2"


def avx2() -> Target:
    """x86-64 with AVX2 and FMA: 16 registers of 256 bits."""
    return Target("avx2", "x86_64-unknown-linux-gnu", "x86-64", _AVX2, 256, 16, True)


def baseline() -> Target:
    """x86-64 of the second level (SSE4.2): 16 registers of 128 bits, no fused multiply-add."""
    return Target("sse4", "x86_64-unknown-linux-gnu", "x86-64", _V2, 128, 16, False)


@functools.cache
def host() -> Target:
    """The best target that this machine runs."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    cpu = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    flat = features.flatten()
    if triple.startswith(("aarch64", "arm64")):
        return Target("neon", triple, cpu, flat, 128, 32, True)
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512dq"):
        return Target("avx512", triple, cpu, flat, 512, 32, True)
    if features.get("avx2") and features.get("fma"):
        return Target("avx2", triple, cpu, flat, 256, 16, True)
    return Target("sse4", triple, cpu, flat, 128, 16, bool(features.get("fma")))
