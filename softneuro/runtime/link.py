"""A program with its kernels loaded, its constants placed and its arena laid out, shared by all contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from softneuro.codegen.jit import address
from softneuro.codegen.target import Target
from softneuro.plan.arena import Interval, assign
from softneuro.plan.program import BufferKind, HostStep, NativeStep, Program

__all__ = ["Linked", "NativeSegment", "link"]

Words = npt.NDArray[np.int64]


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
    bound_words: dict[int, Words]
    arena_offsets: dict[int, int]
    arena_bytes: int


def _segments(steps: Sequence[NativeStep | HostStep]) -> tuple[NativeSegment | HostStep, ...]:
    """Native steps in runs, host steps between them."""
    segments: list[NativeSegment | HostStep] = []
    first, count = 0, 0
    for step in steps:
        if isinstance(step, HostStep):
            if count:
                segments.append(NativeSegment(first, count))
            segments.append(step)
            first, count = first + count, 0
        else:
            count += 1
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
        program, _segments(program.steps), _words(words), _words(functions), _words(starts), _words(arena_words),
        {index: _words(positions) for index, positions in bound.items()}, offsets, placement.size,
    )
