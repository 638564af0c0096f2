"""One inference's memory: an arena, the argument words that point into it, and the run itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softneuro.codegen.jit import address
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import ALIGNMENT, aligned_bytes
from softneuro.plan.program import BufferKind, HostStep, Stored
from softneuro.reference import run_layer
from softneuro.runtime.link import Linked, Words
from softneuro.runtime.team import Team, yield_address
from softneuro.types import Array, physical_shape, to_logical

__all__ = ["Context"]

class Context:
    """Memory for one run at a time of a linked program."""

    def __init__(self, linked: Linked, target: Target) -> None:
        self._linked = linked
        self._arena = aligned_bytes(linked.arena_bytes)
        self._words: Words = linked.words.copy()
        self._words[linked.arena_words] += self._arena.ctypes.data
        self._bases = dict.fromkeys(linked.bound_words, 0)
        self._steps: Words = np.empty((len(linked.step_functions), 2), np.int64)
        self._steps[:, 0] = linked.step_functions
        self._steps[:, 1] = self._words.ctypes.data + 8 * linked.step_words
        self._stamps: Words = np.zeros(len(linked.step_functions) + 1, np.int64)
        self._runner = {timed: address(KernelSpec.of("runner", timed=timed), target) for timed in (False, True)}
        self._barrier = aligned_bytes(ALIGNMENT).view(np.int64)
        self._arguments: Words = np.zeros(5, np.int64)
        self._arguments[2:4] = self._barrier.ctypes.data, yield_address()
        self._argument_address = int(self._arguments.ctypes.data)
        self._step_address, self._stamp_address = int(self._steps.ctypes.data), int(self._stamps.ctypes.data)
        self._views: dict[int, Array] = {}

    def bind(self, buffer: int, array: Array) -> None:
        """Let an input or output buffer lie in ``array`` (C-contiguous, of the buffer's size)."""
        self._views[buffer] = array
        base = array.ctypes.data
        positions = self._linked.bound_words.get(buffer)
        if positions is not None and base != self._bases[buffer]:
            self._words[positions] += base - self._bases[buffer]
            self._bases[buffer] = base

    def view(self, stored: Stored) -> Array:
        """The tensor in logical order, without a copy."""
        buffer = self._linked.program.buffers[stored.buffer]
        shape = physical_shape(stored.type.shape, stored.format.layout)
        if buffer.kind is BufferKind.ARENA:
            start = self._linked.arena_offsets[stored.buffer]
            flat = self._arena[start : start + stored.type.nbytes].view(stored.type.dtype.numpy)
        elif buffer.kind is BufferKind.CONSTANT:
            assert buffer.array is not None
            flat = buffer.array.reshape(-1)
        else:
            flat = self._views[stored.buffer].reshape(-1)
        return to_logical(flat.reshape(shape), stored.format.layout)

    def run_first(self, team: Team, count: int) -> None:
        """Run only the first ``count`` native steps of a program that has no host steps."""
        self._run_native(team, 0, count, False)

    def run(self, team: Team, dynamic: Mapping[str, Array], timed: bool = False) -> dict[str, Array]:
        """Run all steps; ``dynamic`` are the inputs kept by name. Returns all values kept by name."""
        values: dict[str, Array] = {**self._linked.program.host_constants, **dynamic}
        for segment in self._linked.segments:
            if isinstance(segment, HostStep):
                self._run_host(segment, values)
            else:
                self._run_native(team, segment.first, segment.count, timed)
        return values

    def _run_native(self, team: Team, first: int, count: int, timed: bool) -> None:
        self._arguments[0] = self._step_address + 16 * first
        self._arguments[1] = count
        self._arguments[4] = self._stamp_address + 8 * first
        self._barrier[0] = 0
        team.run(self._runner[timed], self._argument_address)

    def _run_host(self, step: HostStep, values: dict[str, Array]) -> None:
        layer = step.layer
        feeds: dict[str, Array] = {}
        for name, item in zip(layer.inputs, step.inputs, strict=True):
            if item is not None:
                feeds[name] = values[item] if isinstance(item, str) else self.view(item)
        for result, item in zip(run_layer(layer, feeds), step.outputs, strict=False):
            if isinstance(item, Stored):
                self.view(item)[...] = result
            elif item is not None:
                values[item] = result

    @property
    def stamps(self) -> Words:
        """Cycle counts: the start, then the end of every native step, of the last timed run."""
        return self._stamps
