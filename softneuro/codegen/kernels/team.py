"""The two sides of a team: the lead publishes work and takes part; a worker waits for work, first spinning, then asleep.

Words of a team (each on a cache line of its own, index times 8): 0 epoch (counts the jobs), 8 number of sleeping
workers, 16 number of workers done with the job, 17 whether the lead sleeps, 32 runner address, 33 runner arguments,
34 stop flag, 35 the process's waiting words (see softneuro.codegen.waiting).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64
from softneuro.codegen.sync import atomic_add, atomic_load, atomic_store, call_kernel
from softneuro.codegen.target import Target
from softneuro.codegen.waiting import waiting

__all__ = ["make"]


def make(target: Target, role: str) -> Callable[[int, int, int], None]:
    """The function of the ``lead`` or of a ``worker``: (team words, tid, nthreads)."""
    waits = waiting(target)
    wait, wait_asleep, wake = waits.wait, waits.wait_asleep, waits.wake

    def lead(team: int, tid: int, nthreads: int) -> None:
        shared, done = load_i64(team, 35), team + 16 * 8
        atomic_store(done, 0)
        atomic_add(team, 1)
        wake(team, team + 8 * 8, shared)
        call_kernel(load_i64(team, 32), load_i64(team, 33), 0, nthreads)
        wait(done, nthreads - 1, done + 8, shared)

    def worker(team: int, tid: int, nthreads: int) -> None:
        shared, done = load_i64(team, 35), team + 16 * 8
        seen = 0
        stopped = 0
        while stopped == 0:
            seen += 1
            wait_asleep(team, seen, team + 8 * 8, shared)
            stopped = atomic_load(team + 34 * 8)
            if stopped == 0:
                call_kernel(load_i64(team, 32), load_i64(team, 33), tid, nthreads)
            if atomic_add(done, 1) + 1 == nthreads - 1:
                wake(done, done + 8, shared)

    return lead if role == "lead" else worker
