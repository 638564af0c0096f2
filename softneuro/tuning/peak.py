"""What this machine can do at best: arithmetic in registers by data type, and reading from each level of memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from softneuro import cpu
from softneuro.codegen.integer_forms import has_byte_dots
from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.cpu import Cpu
from softneuro.memory import ALIGNMENT, aligned_bytes, aligned_empty
from softneuro.runtime.team import Team
from softneuro.types import Array

__all__ = ["DTYPES", "LEVELS", "Arithmetic", "Peak", "arithmetic", "measure_peak", "steady_times", "working_sets"]

LEVELS = ("L1", "L2", "L3", "DRAM")
DTYPES = ("f32", "bf16", "int8")
_KIB, _MIB = 1 << 10, 1 << 20
_LOADS = 8
_RUNS = 15
_RUN_NS = 2_000_000
Timer = Callable[[], int]


@dataclass(frozen=True)
class Peak:
    """The best that was measured, all threads together.

    gflops: float32 GFLOP/s, a multiply-add counting as two. read_gbps: GB/s (10**9 bytes) read from each of LEVELS.
    narrow: likewise 10**9 operations a second for those of the other DTYPES that were asked for and that the target
    has instructions for.
    """

    threads: int
    gflops: float
    read_gbps: Mapping[str, float]
    narrow: Mapping[str, float] = field(default_factory=dict)

    def share(self, macs: int, ns: float) -> float:
        """The part of the arithmetic peak that ``macs`` multiply-adds in ``ns`` nanoseconds reach (1.0: all of it)."""
        return 2 * macs / ns / self.gflops if ns else 0.0


@dataclass(frozen=True)
class Arithmetic:
    """How a target multiplies and adds a data type: the instructions, the kernel that repeats them, the multiply-adds
    that each of its threads does in one step, and its factors. kernel is None where the target has no instructions;
    their place then says what is missing."""

    instructions: str
    kernel: KernelSpec | None = None
    macs: int = 0
    factors: bytes = b""


def arithmetic(dtype: str, target: Target) -> Arithmetic:
    """What a target has for one of DTYPES."""
    features = set(target.features.split(","))
    chains = _chains(target)
    lanes = chains * target.f32_lanes
    if dtype == "f32":
        factors = np.array([0.5, 1.0], np.float32).tobytes()
        return Arithmetic(_fma_instructions(target), KernelSpec.of("peak_fma", chains=chains), lanes, factors)
    if not target.triple.startswith("x86_64"):
        return Arithmetic(f"no kernel measures it on {target.name} yet")
    if dtype == "bf16":
        if "+avx512bf16" not in features or target.vector_bits < 512:
            return Arithmetic("no instruction for it (AVX512-BF16): bf16 would be computed as f32")
        factors = np.array([0x3F00, 0x3F00, 0x3F80, 0x3F80], np.uint16).tobytes()  # 0.5 twice, 1.0 twice
        return Arithmetic("vdpbf16ps", KernelSpec.of("peak_bf16", chains=chains), 2 * lanes, factors)
    return _int8_arithmetic(target, features, chains)


def _fma_instructions(target: Target) -> str:
    if not target.triple.startswith("x86_64"):
        return "fmla"
    return "vfmadd" if target.fma else "mulps and addps"


def _int8_arithmetic(target: Target, features: set[str], chains: int) -> Arithmetic:
    vnni = has_byte_dots(target)
    factors = np.array([1, 2, 3, 4, 1, -2, 3, -1], np.int8).tobytes()
    if not vnni and target.vector_bits == 512 and "+avx512bw" not in features:
        return Arithmetic("no instruction for it (AVX512-VNNI or AVX512BW)")
    instructions = "vpdpbusd" if vnni else "pmaddubsw, pmaddwd and paddd"
    return Arithmetic(instructions, KernelSpec.of("peak_int8", chains=chains, dot=vnni), 4 * chains * target.f32_lanes, factors)


def working_sets(machine: Cpu, threads: int) -> Mapping[str, int]:
    """Bytes that each thread reads again and again so that they come from a level of memory.

    Half of a cache that a core has to itself; a part of half the third level, which threads share, but never so
    little that it fits the second; and for DRAM several times the third level.
    """
    l1, l2, l3 = machine.l1d or 32 * _KIB, machine.l2 or 512 * _KIB, machine.l3 or 16 * _MIB
    return {
        "L1": l1 // 2,
        "L2": max(l2 // 2, 2 * l1),
        "L3": max(l3 // 2 // threads, 2 * l2),
        "DRAM": max(4 * l3, 128 * _MIB) // threads,
    }


def measure_peak(target: Target, threads: int, timer: Timer = time.perf_counter_ns, *, dtypes: Sequence[str] = ("f32",),
                 levels: Sequence[str] = LEVELS) -> Peak:
    """Measure with a team of ``threads``; takes about a second, most of it for the levels of memory.

    dtypes: those of DTYPES to measure besides f32. levels: those of LEVELS to read from.
    Raises CompileError when a kernel cannot be made.
    """
    bench = _Bench(Team(threads, target), target, timer)
    sets = working_sets(cpu.host(), threads)
    reads = {level: bench.read_gbps(sets[level]) for level in levels}
    found = {dtype: arithmetic(dtype, target) for dtype in dtypes if dtype != "f32"}
    narrow = {dtype: bench.gops(how) for dtype, how in found.items() if how.kernel is not None}
    return Peak(threads, bench.gops(arithmetic("f32", target)), reads, narrow)


def steady_times(target: Target, threads: int, runs: int, timer: Timer = time.perf_counter_ns) -> list[int]:
    """Nanoseconds of ``runs`` equal pieces of work, a millisecond or two each: on a quiet machine they hardly differ."""
    return _Bench(Team(threads, target), target, timer).repeated(arithmetic("f32", target), runs)


def _chains(target: Target) -> int:
    """Chains that cover the latency of any FMA unit and leave room for factor and addend."""
    return 24 if target.registers >= 32 else 12


class _Bench:
    """Runs the kernels with the whole team and keeps the shortest time."""

    def __init__(self, team: Team, target: Target, timer: Timer) -> None:
        self._team, self._target, self._timer = team, target, timer
        self._sink = aligned_bytes(ALIGNMENT * team.size)  # a cache line for each thread

    def gops(self, how: Arithmetic) -> float:
        """10**9 operations a second, a multiply-add counting as two."""
        steps, taken = self._long_enough(lambda steps: self._shortest(*self._call(how, steps)))
        return 2 * how.macs * steps * self._team.size / taken / 1e9

    def repeated(self, how: Arithmetic, runs: int) -> list[int]:
        steps, _ = self._long_enough(lambda steps: self._shortest(*self._call(how, steps)))
        call = self._call(how, steps)
        return [self._time(*call) for _ in range(runs)]

    def _call(self, how: Arithmetic, steps: int) -> tuple[int, Array]:
        """The kernel's address and words; the latter point into ``how``."""
        assert how.kernel is not None
        factors = np.frombuffer(how.factors, np.uint8)
        return address(how.kernel, self._target), np.array((steps, factors.ctypes.data, self._sink.ctypes.data), np.int64)

    def read_gbps(self, nbytes: int) -> float:
        step_bytes = _LOADS * self._target.vector_bits // 8
        steps = max(1, nbytes // step_bytes)
        buffer = aligned_empty((steps * step_bytes * self._team.size // 4,))
        buffer.fill(1.0)  # memory that was never written is one page of zeros
        function = address(KernelSpec.of("peak_read", loads=_LOADS), self._target)

        def seconds(passes: int) -> float:
            return self._shortest(function, np.array((buffer.ctypes.data, steps, passes, self._sink.ctypes.data), np.int64))

        passes, taken = self._long_enough(seconds)
        return buffer.nbytes * passes / taken / 1e9

    def _long_enough(self, seconds: Callable[[int], float]) -> tuple[int, float]:
        """A count of repetitions that takes long enough to be timed, and its time."""
        count = 1
        while True:
            taken = seconds(count)
            if taken * 1e9 >= _RUN_NS / 2:
                return count, taken
            count = max(2 * count, math.ceil(count * _RUN_NS / max(taken * 1e9, 1.0) / 4))

    def _shortest(self, function: int, words: Array) -> float:
        return max(min(self._time(function, words) for _ in range(_RUNS)), 1) / 1e9

    def _time(self, function: int, words: Array) -> int:
        start = self._timer()
        self._team.run(function, words.ctypes.data)
        return self._timer() - start
