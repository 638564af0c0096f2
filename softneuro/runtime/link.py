"""A program with its kernels loaded, its constants placed and its arena laid out, shared by all contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from softneuro.codegen.jit import address
from softneuro.codegen.target import Target
from softneuro.plan.arena import Interval, assign
from softneuro.plan.program import BufferKind, HostStep, Program

__all__ = ["Linked", "NativeSegment", "link"]

Words = npt.NDArray[np.int64]
_MOST_WORK = 4_000_000_000
"""Multiply-accumulates of a segment: a tenth of a second of one core, beside which a segment's microseconds are nothing."""


@dataclass(frozen=True)
class NativeSegment:
    """Consecutive native steps: ``count`` pairs of words from ``first`` in the step table."""

    first: int
    count: int


@dataclass(frozen=True)
class Linked:
    """words: all kernel arguments, constants resolved, the rest offsets that each context completes.

    step_functions, step_words: kernel address and index of its first word for each native step.
    arena_words: indices of words that the arena's base is added to. bound_words: for each input or output
    buffer, the indices of words that its address is added to.
    """

    program: Program
    segments: tuple[NativeSegment | HostStep, ...]
    words: Words
    step_functions: Words
    step_words: Words
    arena_words: Words
    bound_words: dict[int, tuple[int, ...]]
    arena_offsets: dict[int, int]
    arena_bytes: int


def _amounts(program: Program) -> list[int]:
    """About how much work every step is: multiply-accumulates, and five for each byte that must move."""
    amounts = [0] * len(program.steps)
    for placed in program.placed:
        if placed.problem is not None:
            work = placed.problem.macs() + 5 * placed.problem.nbytes()
            for step in placed.steps:
                amounts[step] = work // len(placed.steps)
    return amounts


def _segments(program: Program) -> tuple[NativeSegment | HostStep, ...]:
    """Native steps in runs, host steps between them.

    Python's handlers of signals run between segments, so long runs are divided.
    """
    segments: list[NativeSegment | HostStep] = []
    first, count, work = 0, 0, 0
    for step, amount in zip(program.steps, _amounts(program), strict=True):
        host = isinstance(step, HostStep)
        if count and (host or work + amount > _MOST_WORK):
            segments.append(NativeSegment(first, count))
            first, count, work = first + count, 0, 0
        if isinstance(step, HostStep):
            segments.append(step)
        else:
            count, work = count + 1, work + amount
    if count:
        segments.append(NativeSegment(first, count))
    return tuple(segments)


def _words(values: Sequence[int]) -> Words:
    return np.array(values, np.int64)


def link(program: Program, target: Target) -> Linked:
    """Load the kernels and lay out memory. Raises CompileError when a kernel has to be compiled and cannot."""
    arena = [i for i, b in enumerate(program.buffers) if b.kind is BufferKind.ARENA and b.last >= 0]
    placement = assign([Interval(program.buffers[i].first, program.buffers[i].last, program.buffers[i].nbytes) for i in arena])
    offsets = dict(zip(arena, placement.offsets, strict=True))
    words: list[int] = []
    functions: list[int] = []
    starts: list[int] = []
    arena_words: list[int] = []
    bound: dict[int, list[int]] = {}
    for step in program.steps:
        if isinstance(step, HostStep):
            continue
        functions.append(address(step.kernel, target))
        starts.append(len(words))
        for word in step.words:
            if isinstance(word, int):
                words.append(word)
                continue
            index, offset = word
            buffer = program.buffers[index]
            if buffer.kind is BufferKind.CONSTANT:
                assert buffer.array is not None
                words.append(buffer.array.ctypes.data + offset)
            elif buffer.kind is BufferKind.ARENA:
                arena_words.append(len(words))
                words.append(offsets[index] + offset)
            else:
                bound.setdefault(index, []).append(len(words))
                words.append(offset)
    return Linked(
        program, _segments(program), _words(words), _words(functions), _words(starts), _words(arena_words),
        {index: tuple(positions) for index, positions in bound.items()}, offsets, placement.size,
    )
