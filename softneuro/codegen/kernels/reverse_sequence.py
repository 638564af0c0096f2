"""The beginnings of sequences turned round.

Words: 0 source, 1 lengths (int64 [batch]), 2 destination, 3 sequences, 4 steps, 5 bytes from one sequence to the next,
6 bytes from one step to the next, 7 bytes of one step of one sequence.
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.bulk import copy_unit
from softneuro.codegen.memory import load_i64
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target) -> Callable[[int, int, int], None]:
    """Threads share the steps of all sequences. Lengths outside of 0 to the number of steps are moved to its ends."""
    copy = copy_unit(target)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        source, lengths, destination = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2)
        sequences, steps, to_sequence = load_i64(args, 3), load_i64(args, 4), load_i64(args, 5)
        to_step, length = load_i64(args, 6), load_i64(args, 7)
        for unit in range(sequences * steps * tid // nthreads, sequences * steps * (tid + 1) // nthreads):
            sequence = unit // steps
            step = unit - sequence * steps
            turned = min(max(load_i64(lengths, sequence), 0), steps)
            other = turned - 1 - step if step < turned else step
            place = sequence * to_sequence
            copy(destination + place + step * to_step, source + place + other * to_step, length)

    return kernel
