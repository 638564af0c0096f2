"""What this machine can do at best: float32 arithmetic in registers, and reading from each level of memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from softneuro import cpu
from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.cpu import Cpu
from softneuro.memory import ALIGNMENT, aligned_bytes, aligned_empty
from softneuro.runtime.team import Team

__all__ = ["LEVELS", "Peak", "measure_peak", "working_sets"]

LEVELS = ("L1", "L2", "L3", "DRAM")
_KIB, _MIB = 1 << 10, 1 << 20
_LOADS = 8
_RUNS = 15
_RUN_NS = 2_000_000
Timer = Callable[[], int]


@dataclass(frozen=True)
class Peak:
    """The best that was measured, all threads together.

    gflops: float32 GFLOP/s, a multiply-add counting as two. read_gbps: GB/s (10**9 bytes) read from each of LEVELS.
    """

    threads: int
    gflops: float
    read_gbps: Mapping[str, float]

    def share(self, macs: int, ns: float) -> float:
        """The part of the arithmetic peak that ``macs`` multiply-adds in ``ns`` nanoseconds reach (1.0: all of it)."""
        return 2 * macs / ns / self.gflops if ns else 0.0


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


def measure_peak(target: Target, threads: int, timer: Timer = time.perf_counter_ns) -> Peak:
    """Measure with a team of ``threads``; takes about a second. Raises CompileError when a kernel cannot be made."""
    bench = _Bench(Team(threads, target), target, timer)
    reads = {level: bench.read_gbps(nbytes) for level, nbytes in working_sets(cpu.host(), threads).items()}
    return Peak(threads, bench.gflops(), reads)


def _chains(target: Target) -> int:
    """Chains that cover the latency of any FMA unit and leave room for factor and addend."""
    return 24 if target.registers >= 32 else 12


class _Bench:
    """Runs the two kernels with the whole team and keeps the shortest time."""

    def __init__(self, team: Team, target: Target, timer: Timer) -> None:
        self._team, self._target, self._timer = team, target, timer
        self._sink = aligned_bytes(ALIGNMENT * team.size)  # a cache line for each thread

    def gflops(self) -> float:
        chains = _chains(self._target)
        numbers = np.array([0.5, 1.0], np.float32)
        function = address(KernelSpec.of("peak_fma", chains=chains), self._target)

        def seconds(steps: int) -> float:
            return self._shortest(function, (steps, numbers.ctypes.data, self._sink.ctypes.data))

        steps, taken = self._long_enough(seconds)
        return 2 * chains * self._target.f32_lanes * steps * self._team.size / taken / 1e9

    def read_gbps(self, nbytes: int) -> float:
        step_bytes = _LOADS * self._target.vector_bits // 8
        steps = max(1, nbytes // step_bytes)
        buffer = aligned_empty((steps * step_bytes * self._team.size // 4,))
        buffer.fill(1.0)  # memory that was never written is one page of zeros
        function = address(KernelSpec.of("peak_read", loads=_LOADS), self._target)

        def seconds(passes: int) -> float:
            return self._shortest(function, (buffer.ctypes.data, steps, passes, self._sink.ctypes.data))

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

    def _shortest(self, function: int, words: tuple[int, ...]) -> float:
        arguments = np.array(words, np.int64)
        best = math.inf
        for _ in range(_RUNS):
            start = self._timer()
            self._team.run(function, arguments.ctypes.data)
            best = min(best, self._timer() - start)
        return max(best, 1) / 1e9
