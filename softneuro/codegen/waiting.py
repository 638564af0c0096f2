"""How threads of a team wait for each other: a spin, then looks at the processor's run queue, then sleep.

On an idle machine a spin ends soonest. Where other threads need the processors too, spinning (and yielding, which
gives up a whole time slice) holds up the very thread that is waited for, so there a waiter sleeps at once. A yield
that does not return quickly shows which it is; what it showed is kept for the waits after it, of the whole process.

Shared words (`SHARED_WORDS`, one set for a process): 0 how many waits sleep at once from now on, 1 address of
sched_yield, 2 address of syscall (0: waiters yield in place of sleeping), 3 number of the futex system call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba.extending import register_jitable

from softneuro.codegen.memory import load_i64, store_i64
from softneuro.codegen.sync import atomic_add, atomic_load, call_yield, futex, make_pause, make_ticks
from softneuro.codegen.target import Target

__all__ = ["SHARED_WORDS", "Waiting", "waiting"]

SHARED_WORDS = 4
_SPINS = 4000
"""Turns of the waiting loop before a look at the run queue (about 50 microseconds)."""
_SPINS_WHEN_CROWDED = 100
_SLEEPS = 256
"""For how many waits the processors are taken to be crowded once a yield has shown it."""
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_EVERYONE = 1 << 30


@dataclass(frozen=True)
class Waiting:
    """Functions for kernels; all arguments are int64 addresses and counts.

    wait(word, goal, sleepers, shared): return when the word has reached ``goal``. The words at ``word`` and
    ``sleepers`` (how many threads sleep) are 8 bytes and only ever grow, or go back when nobody waits.
    wait_asleep: the same without looks at the run queue: for those who may have to wait for long.
    wake(word, sleepers, shared): to be called after ``word`` reached its goal.
    """

    wait: Any
    wait_asleep: Any
    wake: Any


def waiting(target: Target) -> Waiting:
    """The functions for a target."""
    pause, ticks, slow = make_pause(target), make_ticks(target), target.ticks_of_a_switch
    most_spins, few_spins, sleeps = _SPINS, _SPINS_WHEN_CROWDED, _SLEEPS
    wait_number, wake_number, everyone = _WAIT_PRIVATE, _WAKE_PRIVATE, _EVERYONE

    @register_jitable
    def spin(word: int, goal: int, shared: int) -> None:
        spins = few_spins if load_i64(shared, 0) > 0 else most_spins
        while spins > 0 and atomic_load(word) < goal:
            pause(0)
            spins -= 1

    @register_jitable
    def look(word: int, goal: int, shared: int) -> None:
        """Yield for as long as nobody else takes the processor."""
        crowded = load_i64(shared, 0)
        if crowded > 0:
            store_i64(shared, 0, crowded - 1)
            return
        while atomic_load(word) < goal:
            before = ticks(0)
            call_yield(load_i64(shared, 1))
            if ticks(0) - before > slow and load_i64(shared, 2) != 0:
                store_i64(shared, 0, sleeps)
                return

    @register_jitable
    def sleep(word: int, goal: int, sleepers: int, shared: int) -> None:
        atomic_add(sleepers, 1)
        seen = atomic_load(word)
        while seen < goal:
            if load_i64(shared, 2) == 0:
                call_yield(load_i64(shared, 1))
            else:
                futex(load_i64(shared, 2), load_i64(shared, 3), word, wait_number, seen & 0xFFFFFFFF, 0, 0)
            seen = atomic_load(word)
        atomic_add(sleepers, -1)

    @register_jitable
    def wait(word: int, goal: int, sleepers: int, shared: int) -> None:
        spin(word, goal, shared)
        if atomic_load(word) < goal:
            look(word, goal, shared)
            if atomic_load(word) < goal:
                sleep(word, goal, sleepers, shared)

    @register_jitable
    def wait_asleep(word: int, goal: int, sleepers: int, shared: int) -> None:
        spin(word, goal, shared)
        if atomic_load(word) < goal:
            sleep(word, goal, sleepers, shared)

    @register_jitable
    def wake(word: int, sleepers: int, shared: int) -> None:
        if atomic_load(sleepers) > 0 and load_i64(shared, 2) != 0:
            futex(load_i64(shared, 2), load_i64(shared, 3), word, wake_number, everyone, 0, 0)

    return Waiting(wait, wait_asleep, wake)
