"""The two sides of a team: the lead publishes work and takes part; a worker waits for work, first spinning, then asleep.

Words of a team (each on a cache line of its own, index times 8): 0 epoch (counts the jobs), 8 number of sleeping
workers, 16 number of workers done with the job, 32 runner address, 33 runner arguments,
34 stop flag, 40 address of sched_yield, 41 address of syscall (0: none), 42 futex syscall number.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.memory import load_i64
from softneuro.codegen.sync import atomic_add, atomic_load, atomic_store, call_kernel, call_yield, futex, make_pause
from softneuro.codegen.target import Target

__all__ = ["make"]

SPINS = 8000
"""Turns of the waiting loop before a worker goes to sleep (about 100 microseconds)."""
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129


def make(target: Target, role: str) -> Callable[[int, int, int], None]:
    """The function of the ``lead`` or of a ``worker``: (team words, tid, nthreads)."""
    pause = make_pause(target)
    most_spins = SPINS
    wait, wake = _WAIT_PRIVATE, _WAKE_PRIVATE

    def lead(team: int, tid: int, nthreads: int) -> None:
        atomic_store(team + 16 * 8, 0)
        atomic_add(team, 1)
        if atomic_load(team + 8 * 8) > 0 and load_i64(team, 41) != 0:
            futex(load_i64(team, 41), load_i64(team, 42), team, wake, 1 << 30, 0, 0)
        call_kernel(load_i64(team, 32), load_i64(team, 33), 0, nthreads)
        spins = 0
        while atomic_load(team + 16 * 8) < nthreads - 1:
            pause(0)
            spins += 1
            if spins > most_spins:
                call_yield(load_i64(team, 40))

    def worker(team: int, tid: int, nthreads: int) -> None:
        seen = 0
        while True:
            spins = 0
            while atomic_load(team) == seen:
                pause(0)
                spins += 1
                if spins > most_spins:
                    if load_i64(team, 41) == 0:
                        call_yield(load_i64(team, 40))
                        continue
                    atomic_add(team + 8 * 8, 1)
                    futex(load_i64(team, 41), load_i64(team, 42), team, wait, seen & 0xFFFFFFFF, 0, 0)
                    atomic_add(team + 8 * 8, -1)
            seen += 1
            stopped = atomic_load(team + 34 * 8)
            if stopped == 0:
                call_kernel(load_i64(team, 32), load_i64(team, 33), tid, nthreads)
            atomic_add(team + 16 * 8, 1)
            if stopped != 0:
                break

    return lead if role == "lead" else worker
