"""One inference's memory: an arena, the argument words that point into it, and the run itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Layer
from softneuro.memory import ALIGNMENT, address_of, aligned_bytes
from softneuro.ops.base import Op, Values
from softneuro.plan.program import BufferKind, HostStep, Stored
from softneuro.reference import computed, run_layer
from softneuro.runtime.link import Linked, Words
from softneuro.runtime.team import Team, waiting_words
from softneuro.types import Array, physical_shape, to_logical

__all__ = ["Context", "Stamps"]

_STAMPS_A_STEP = 3


@dataclass
class Stamps:
    """What one timed run noted.

    cycles: counts of the processor's cycle counter, threads x native steps x 3: when the thread's work of the step
    began, when it ended, and when the thread passed the barrier after it.
    segments: for each run of native steps the first of them, how many, and `time.perf_counter_ns` before and after.
    hosts: for each host step, in order, `time.perf_counter_ns` before and after.
    """

    cycles: Words
    segments: list[tuple[int, int, int, int]] = field(default_factory=list)
    hosts: list[tuple[int, int]] = field(default_factory=list)


class Context:
    """Memory for one run at a time of a linked program.

    flush_denormals: native steps take denormal numbers for zeros. compute: gives what an op on the host makes of its
    inputs, by default its reference.
    """

    def __init__(self, linked: Linked, target: Target, *, flush_denormals: bool = False,
                 compute: Callable[[Op, Values], tuple[Array, ...]] = computed) -> None:
        self.linked = linked
        self._compute = compute
        self._arena = aligned_bytes(linked.arena_bytes)
        self._words: Words = linked.words.copy()
        self._words[linked.arena_words] += self._arena.ctypes.data
        self._word_view = self._words.data  # single words are quicker this way
        self._bases = dict.fromkeys(linked.bound_words, 0)
        self._steps: Words = np.empty((len(linked.step_functions), 2), np.int64)
        self._steps[:, 0] = linked.step_functions
        self._steps[:, 1] = self._words.ctypes.data + 8 * linked.step_words
        self._target, self._flush = target, flush_denormals
        self._runner = address(KernelSpec.of("runner", timed=False, flush=flush_denormals), target)
        self._barrier = aligned_bytes(ALIGNMENT).view(np.int64)
        self._barrier[...] = 0
        self._arguments: Words = np.zeros(6, np.int64)
        self._arguments[2:4] = self._barrier.ctypes.data, waiting_words().ctypes.data
        self._argument_address = int(self._arguments.ctypes.data)
        self._step_address = int(self._steps.ctypes.data)
        self._views: dict[int, Array] = {}

    def bind(self, buffer: int, array: Array) -> None:
        """Let an input or output buffer lie in ``array`` (C-contiguous, of the buffer's size)."""
        self._views[buffer] = array
        known = self._bases.get(buffer)
        if known is not None and (base := address_of(array)) != known:
            for position in self.linked.bound_words[buffer]:
                self._word_view[position] += base - known
            self._bases[buffer] = base

    def view(self, stored: Stored) -> Array:
        """The tensor in logical order, without a copy, its elements as its format keeps them."""
        buffer = self.linked.program.buffers[stored.buffer]
        shape = physical_shape(stored.type.shape, stored.format.layout)
        if buffer.kind is BufferKind.ARENA:
            start = self.linked.arena_offsets[stored.buffer]
            flat = self._arena[start : start + stored.format.nbytes(stored.type)].view(stored.format.dtype.numpy)
        elif buffer.kind is BufferKind.CONSTANT:
            assert buffer.array is not None
            flat = buffer.array.reshape(-1)
        else:
            flat = self._views[stored.buffer].reshape(-1)
        return to_logical(flat.reshape(shape), stored.format.layout)

    def run_first(self, team: Team, count: int) -> None:
        """Run only the first ``count`` native steps of a program that has no host steps."""
        self._run_native(team, self._runner, 0, count)

    def run(self, team: Team, dynamic: Mapping[str, Array]) -> dict[str, Array]:
        """Run all steps; ``dynamic`` are the inputs kept by name. Returns all values kept by name."""
        values: dict[str, Array] = {**self.linked.program.host_constants, **dynamic}
        for segment in self.linked.segments:
            if isinstance(segment, HostStep):
                self._run_host(segment, values)
            else:
                self._run_native(team, self._runner, segment.first, segment.count)
        return values

    def run_timed(self, team: Team, dynamic: Mapping[str, Array]) -> Stamps:
        """Run all steps as `run` does, every thread noting when it does what."""
        runner = address(KernelSpec.of("runner", timed=True, flush=self._flush), self._target)
        count = len(self.linked.step_functions)
        cycles = _cycles(team.size, count)
        stamps = Stamps(cycles[:, : _STAMPS_A_STEP * count].reshape(team.size, count, _STAMPS_A_STEP))
        values: dict[str, Array] = {**self.linked.program.host_constants, **dynamic}
        for segment in self.linked.segments:
            start = time.perf_counter_ns()
            if isinstance(segment, HostStep):
                self._run_host(segment, values)
                stamps.hosts.append((start, time.perf_counter_ns()))
            else:
                self._arguments[4] = cycles.ctypes.data + 8 * _STAMPS_A_STEP * segment.first
                self._arguments[5] = cycles.strides[0]
                self._run_native(team, runner, segment.first, segment.count)
                stamps.segments.append((segment.first, segment.count, start, time.perf_counter_ns()))
        return stamps

    def _run_native(self, team: Team, runner: int, first: int, count: int) -> None:
        self._arguments[0] = self._step_address + 16 * first
        self._arguments[1] = count
        self._barrier[0] = 0
        team.run(runner, self._argument_address)

    def _run_host(self, step: HostStep, values: dict[str, Array]) -> None:
        layer = step.layer
        feeds: dict[str, Array] = {}
        for name, item in zip(layer.inputs, step.inputs, strict=True):
            if item is not None:
                feeds[name] = values[item] if isinstance(item, str) else self.view(item)
        for result, item in zip(run_layer(layer, feeds, self._compute), step.outputs, strict=False):
            if isinstance(item, Stored):
                _put(layer, self.view(item), result)
            elif item is not None:
                values[item] = self._own(result)

    def _own(self, result: Array) -> Array:
        """A result that is kept by name: a copy where it is a view of memory that later steps or runs write to."""
        lent = (self._arena, *self._views.values())
        if isinstance(result, np.ndarray) and any(np.may_share_memory(result, memory) for memory in lent):
            return result.copy()
        return result


def _put(layer: Layer, place: Array, result: Array) -> None:
    try:
        place[...] = result
    except (ValueError, TypeError) as error:
        raise InputError(f"layer {layer.name!r} ({layer.op.name}): found a result of shape {np.shape(result)} on these inputs, "
                         f"needed {place.shape} as its parameters say: the model is inconsistent") from error


def _cycles(threads: int, steps: int) -> Words:
    """Zeros, a row for each thread; the rows share no cache line, nor two that the processor fetches together."""
    pair = 2 * ALIGNMENT
    row = -(-8 * _STAMPS_A_STEP * steps // pair) * pair + pair
    cycles = aligned_bytes(threads * row).view(np.int64).reshape(threads, row // 8)
    cycles[...] = 0
    return cycles
