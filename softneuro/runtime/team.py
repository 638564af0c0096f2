"""The threads that run a plan together: parked in native code, woken by one call, meeting at barriers."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
import weakref

import numpy as np
import numpy.typing as npt

from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import ALIGNMENT, aligned_bytes

__all__ = ["Team", "entry", "waiting_words"]

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}
_WORDS = 64
_RUNNER, _ARGUMENTS, _STOP, _SHARED = 32, 33, 34, 35


def entry(spec: KernelSpec, target: Target) -> ctypes._FuncPointer:
    """A kernel as a Python callable of three integers; the interpreter lock is released while it runs."""
    return _ENTRY(address(spec, target))


def _symbol(name: str) -> int:
    """The address of a function of the C library."""
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


@functools.cache
def waiting_words() -> npt.NDArray[np.int64]:
    """The words that all waiting threads of this process share (see softneuro.codegen.waiting), on a cache line."""
    words = aligned_bytes(ALIGNMENT).view(np.int64)
    words[...] = 0
    words[1] = _symbol("sched_yield")
    number = _FUTEX_NUMBER.get(platform.machine()) if platform.system() == "Linux" else None
    if number is not None:
        words[2:4] = _symbol("syscall"), number
    return words


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _forget_workers() -> None:
    """In a forked child: let every team start anew."""
    for team in _teams:
        team._forget()


@functools.cache
def _watch_forks() -> None:
    """From now on, and once, `_forget_workers` after every fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_workers)


class Team:
    """``size`` threads, the caller of `run` being the first. Not re-entrant: one `run` at a time (it takes a lock).

    Workers wait in a short spin and then asleep in the kernel, so an idle team costs no processor time. After a
    fork the child's team has no workers; `run` starts new ones. They end when nobody refers to the team any more.
    """

    def __init__(self, size: int, target: Target) -> None:
        self.size = size
        self._target = target
        self._lock = threading.Lock()
        self._lead = entry(KernelSpec.of("team", role="lead"), target) if size > 1 else None
        self._worker = entry(KernelSpec.of("team", role="worker"), target) if size > 1 else None
        self._started = False
        self._words = np.zeros(0, np.int64)
        _watch_forks()
        _teams.add(self)

    def _forget(self) -> None:
        """In a forked child: there are no workers, and whoever held the lock is not there to give it back."""
        self._started, self._lock = False, threading.Lock()

    def _start(self) -> None:
        """Start the workers (again, in a forked child)."""
        words = aligned_bytes(8 * _WORDS).view(np.int64)
        words[...] = 0
        words[_SHARED] = waiting_words().ctypes.data
        worker = self._worker
        assert worker is not None
        for tid in range(1, self.size):
            thread = threading.Thread(
                target=_work, args=(worker, words, int(words.ctypes.data), tid, self.size), name=f"softneuro-{tid}", daemon=True
            )
            thread.start()
        self._words, self._started = words, True
        assert self._lead is not None
        weakref.finalize(self, _stop, self._lead, words, self.size, os.getpid()).atexit = False

    def run(self, runner: int, arguments: int) -> None:
        """Call the native function at ``runner`` with ``arguments`` on every thread and wait for all."""
        if self._lead is None:
            _ENTRY(runner)(arguments, 0, 1)
            return
        with self._lock:
            if not self._started:
                self._start()
            self._words[_RUNNER], self._words[_ARGUMENTS] = runner, arguments
            self._lead(self._words.ctypes.data, 0, self.size)


def _work(worker: ctypes._FuncPointer, keep: object, words: int, tid: int, size: int) -> None:
    worker(words, tid, size)


def _nothing(args: int, tid: int, nthreads: int) -> None:
    """A job that does nothing: the last one of a team."""


_NOTHING = _ENTRY(_nothing)


def _stop(lead: ctypes._FuncPointer, words: npt.NDArray[np.int64], size: int, pid: int) -> None:
    """Let the workers of a team that is no longer used end."""
    if os.getpid() == pid:
        words[_RUNNER], words[_STOP] = ctypes.cast(_NOTHING, ctypes.c_void_p).value or 0, 1
        lead(words.ctypes.data, 0, size)
