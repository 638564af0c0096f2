"""Locks that a fork does not leave taken by a thread which the child does not have.

A fork waits until no other thread compiles or loads a kernel, since the compilers' own locks and half-made code could not be
mended in the child. What locks of sessions guard are whole values put into dicts and lists, so in the child those locks are
simply free.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref

from softneuro.codegen import jit

__all__ = ["new_lock"]

_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, whoever held it in the parent."""
    _watch_forks()
    lock = threading.Lock()
    _locks.add(lock)
    return lock


@functools.cache
def _watch_forks() -> None:
    """From now on, and once, handlers of forks; not where there are none."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_await_compilation, after_in_parent=jit._lock.release, after_in_child=_free_all)


def _await_compilation() -> None:
    jit._lock.acquire()


def _free_all() -> None:
    jit._lock.release()
    for lock in _locks:
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does with its own
