"""A program: what a plan becomes for concrete shapes on this machine, before any memory is given out."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softneuro.codegen.spec import KernelSpec
from softneuro.graph import Layer
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.routine import Routine, Schedule
from softneuro.types import Array, Format, TensorType

__all__ = ["Buffer", "BufferKind", "HostStep", "NativeStep", "Packing", "Placed", "Program", "Stored", "Word"]


class BufferKind(enum.Enum):
    """Who owns a buffer's memory."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


@dataclass
class Buffer:
    """A piece of memory. first and last are the steps between which an arena buffer must live."""

    kind: BufferKind
    nbytes: int
    name: str = ""
    array: Array | None = None
    first: int = -1
    last: int = -1

    def use(self, step: int) -> None:
        """Keep the buffer alive at ``step``."""
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)


@dataclass(frozen=True)
class Stored:
    """A tensor as it lies in a buffer."""

    buffer: int
    type: TensorType
    format: Format


Word = int | tuple[int, int]
"""A literal, or (buffer, byte offset)."""


@dataclass(frozen=True)
class NativeStep:
    """One kernel launch of a layer."""

    layer: str
    kernel: KernelSpec
    words: tuple[Word, ...]


@dataclass(frozen=True)
class HostStep:
    """A layer that the host computes in numpy between native steps.

    inputs: where each input lies (a name in ``dynamic`` for tensors without a type, None when absent).
    outputs: where each output goes, likewise.
    """

    layer: Layer
    inputs: tuple[Stored | str | None, ...]
    outputs: tuple[Stored | str | None, ...]


@dataclass(frozen=True)
class Placed:
    """What runs for one layer or adapt; problem is None when its types are not known before the run."""

    name: str
    problem: Problem | None
    choice: Choice
    steps: range


@dataclass(frozen=True)
class Packing:
    """A layer's weights and what they are packed with; buffers: where the arrays that `Routine.pack` gives belong."""

    name: str
    problem: Problem
    routine: Routine
    schedule: Schedule
    constants: Sequence[Array | None]
    buffers: Sequence[int]


@dataclass(frozen=True)
class Program:
    """Steps over buffers.

    inputs and outputs map graph names to where they lie, or to their own name when they are dynamic: tensors
    without a type known before the run, strings and the like, which the host keeps by name. host_constants are
    the constants that host steps read by name. placed tells what runs for each layer and adapt, in order; packings
    which weights the steps read.
    """

    steps: tuple[NativeStep | HostStep, ...]
    buffers: tuple[Buffer, ...]
    inputs: Mapping[str, Stored | str]
    outputs: Mapping[str, Stored | str]
    host_constants: Mapping[str, Array]
    placed: tuple[Placed, ...]
    packings: tuple[Packing, ...] = ()
