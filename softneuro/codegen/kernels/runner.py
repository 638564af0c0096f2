"""Run a list of steps as one thread of a team: call each kernel, meet the others at a barrier, go on.

There is no barrier after the last step: the team meets there anyway (timed runs have one, to be measured).

Words: 0 steps (pairs of kernel address and argument address), 1 number of steps, 2 barrier (two words: a counter, zero
at the start, and how many threads sleep), 3 the process's waiting words (see softneuro.codegen.waiting). Only when
timed: 4 time stamps of the first thread, 5 bytes from one thread's stamps to the next one's, both multiples of 8; a
thread has three for every step: its work began, its work ended, it passed the barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.sync import atomic_add, call_kernel, cycles, make_flush, make_restore
from softneuro.codegen.target import Target
from softneuro.codegen.waiting import waiting

__all__ = ["make"]


def make(target: Target, timed: bool, flush: bool) -> Callable[[int, int, int], None]:
    """The runner; ``timed`` notes the cycle counter around every step, each thread in memory of its own.

    flush: denormal numbers are zeros in the steps; the thread's own mode is there again when the runner returns.
    """
    waits = waiting(target)
    wait, wake = waits.wait, waits.wake
    flush_denormals, restore = make_flush(target), make_restore(target)

    def run(args: int, tid: int, nthreads: int) -> None:
        steps, count, barrier = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        shared = load_i64(args, 3)
        meetings = count if timed else count - 1
        if nthreads == 1:
            meetings = 0
        if flush:
            mode = flush_denormals(0)
        if timed:
            stamps = load_i64(args, 4) + tid * load_i64(args, 5)
            now = cycles(0)
        for step in range(count):
            if timed:
                store_i64(stamps, 3 * step, now)
            call_kernel(load_i64(steps, 2 * step), load_i64(steps, 2 * step + 1), tid, nthreads)
            if timed:
                store_i64(stamps, 3 * step + 1, cycles(0))
            if step < meetings:
                goal = (step + 1) * nthreads
                if atomic_add(barrier, 1) + 1 == goal:
                    wake(barrier, barrier + 8, shared)
                else:
                    wait(barrier, goal, barrier + 8, shared)
            if timed:
                now = cycles(0)
                store_i64(stamps, 3 * step + 2, now)
        if flush:
            restore(mode)

    return run
