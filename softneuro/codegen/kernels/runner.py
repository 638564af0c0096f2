"""Run a list of steps as one thread of a team: call each kernel, meet the others at a barrier, go on.

Words: 0 steps (pairs of kernel address and argument address), 1 number of steps, 2 barrier counter (zero at the
start), 3 address of sched_yield. Only when timed: 4 time stamps of the first thread, 5 bytes from one thread's stamps
to the next one's, both multiples of 8; a thread has three for every step: its work began, its work ended, it passed
the barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.sync import atomic_add, atomic_load, call_kernel, call_yield, cycles, make_pause
from softneuro.codegen.target import Target

__all__ = ["make"]

SPINS = 4000
"""Turns of the waiting loop before the processor is offered to other threads (some 50 microseconds)."""


def make(target: Target, timed: bool) -> Callable[[int, int, int], None]:
    """The runner; ``timed`` notes the cycle counter around every step, each thread in memory of its own."""
    pause = make_pause(target)
    spins_allowed = SPINS

    def run(args: int, tid: int, nthreads: int) -> None:
        steps, count, barrier = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        yield_address = load_i64(args, 3)
        if timed:
            stamps = load_i64(args, 4) + tid * load_i64(args, 5)
            now = cycles(0)
        for step in range(count):
            if timed:
                store_i64(stamps, 3 * step, now)
            call_kernel(load_i64(steps, 2 * step), load_i64(steps, 2 * step + 1), tid, nthreads)
            if timed:
                store_i64(stamps, 3 * step + 1, cycles(0))
            if nthreads > 1:
                atomic_add(barrier, 1)
                spins = 0
                while atomic_load(barrier) < (step + 1) * nthreads:
                    pause(0)
                    spins += 1
                    if spins > spins_allowed:
                        call_yield(yield_address)
            if timed:
                now = cycles(0)
                store_i64(stamps, 3 * step + 2, now)

    return run
