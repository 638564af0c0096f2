"""One block of memory copied. Words: 0 source, 1 destination, 2 bytes."""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_bytes
from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the cache lines."""
    copy = copy_bytes(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, destination, length = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        lines = (length + CACHE_LINE - 1) // CACHE_LINE
        first = lines * tid // nthreads * CACHE_LINE
        end = min(length, lines * (tid + 1) // nthreads * CACHE_LINE)
        if end > first:
            copy(destination + first, source + first, end - first)

    return kernel
