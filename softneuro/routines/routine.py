"""What a routine is: how to compute one op in given formats, as a value with function fields."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.base import Op
from softneuro.problem import Problem
from softneuro.types import Array, DType, Format

__all__ = ["Address", "Area", "Built", "Launch", "Routine", "Schedule", "Signature", "Word",
           "packed", "scratch", "source", "table", "target_of"]


class Area(enum.IntEnum):
    """Where an address word points: known only when a context is laid out."""

    INPUT = 0
    OUTPUT = 1
    PACKED = 2
    TABLE = 3
    SCRATCH = 4


@dataclass(frozen=True)
class Address:
    """A word that becomes an address: byte ``offset`` into a buffer of an area."""

    area: Area
    index: int
    offset: int = 0


Word = int | Address


def source(index: int, offset: int = 0) -> Address:
    """The address of the layer's input ``index``."""
    return Address(Area.INPUT, index, offset)


def target_of(index: int, offset: int = 0) -> Address:
    """The address of the layer's output ``index``."""
    return Address(Area.OUTPUT, index, offset)


def packed(index: int, offset: int = 0) -> Address:
    """The address of array ``index`` of what `Routine.pack` returned."""
    return Address(Area.PACKED, index, offset)


def table(index: int, offset: int = 0) -> Address:
    """The address of array ``index`` of `Built.tables`."""
    return Address(Area.TABLE, index, offset)


def scratch(offset: int = 0) -> Address:
    """An address in the layer's scratch memory (64-byte aligned, contents undefined)."""
    return Address(Area.SCRATCH, 0, offset)


@dataclass(frozen=True)
class Launch:
    """One kernel call: every thread of the team calls it with the same words; all meet before the next launch."""

    kernel: KernelSpec
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Built:
    """A layer made ready for concrete shapes.

    launches: kernel calls in order. tables: arrays that depend on shapes (int32 offsets and the like), shared by
    all contexts and therefore free of absolute addresses. scratch: bytes. alias: the input whose memory output 0
    shares, with no launches (views). host: computed by the op's numpy reference between native steps.
    """

    launches: tuple[Launch, ...] = ()
    tables: tuple[Array, ...] = ()
    scratch: int = 0
    alias: int | None = None
    host: bool = False


Schedule = Mapping[str, int]
"""The tunable numbers of a routine by name."""


@dataclass(frozen=True)
class Signature:
    """Formats that a routine reads and writes; None for inputs that are absent or taken by `Routine.pack`."""

    inputs: tuple[Format | None, ...]
    outputs: tuple[Format, ...]

    def __str__(self) -> str:
        return f"{','.join('-' if f is None else str(f) for f in self.inputs)}>{','.join(map(str, self.outputs))}"

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Inverse of ``str``."""
        inputs, _, outputs = text.partition(">")
        return cls(
            tuple(None if f == "-" else Format.parse(f) for f in inputs.split(",") if f),
            tuple(Format.parse(f) for f in outputs.split(",") if f),
        )


@dataclass(frozen=True)
class Routine:
    """One way to compute an op.

    name: ``<op>.<algorithm>.<dtype>.<layout>``.
    reject: why this problem cannot be computed here, as a sentence with found and needed, or None.
    signatures: the formats it can read and write for a problem it does not reject.
    schedules: the variants worth measuring, the default first; never empty; shape-dependent values are fine.
    packs: input positions that `pack` consumes; they must be constant (reject checks) and are None in signatures.
    pack: constants into kernel order, once for all shapes: (problem, schedule, target, values by position).
    build: launches for a problem: (problem, signature, schedule, target). Kernels take shapes at run time; only
        literals of the KernelSpec compile anew, and these may depend on the op, data types, constants, schedule,
        signature and target, but not on the sizes of activations.
    unpromising: why others are sure to be faster on a problem that could be computed here, like ``reject``: it is not
        a candidate then, but a plan that chose the routine for other shapes keeps it.
    kernels: every kernel that `build` could launch for other sizes of the activations, so that they can be compiled
        before those sizes are met; empty when they are always the ones of its launches (not so if it may alias).
    approximate: rounds more than summing the products would, so that tuning looks at the whole plan's error before it
    keeps a plan that uses it.
    computes: the data type that operands are rounded to before they are multiplied, if another than the problem's; tuning
        offers the routine only where tensors may be kept as that, whatever its signature keeps them as.
    tolerance: largest allowed error in units of eps * sqrt(accumulation length) * scale of the output.
    """

    name: str
    op: type[Op]
    reject: Callable[[Problem, Target], str | None]
    signatures: Callable[[Problem], tuple[Signature, ...]]
    build: Callable[[Problem, Signature, Schedule, Target], Built]
    schedules: Callable[[Problem, Target], tuple[Schedule, ...]] = field(default=lambda problem, target: ({},))
    pack: Callable[[Problem, Schedule, Target, Sequence[Array | None]], tuple[Array, ...]] = field(
        default=lambda problem, schedule, target, values: ()
    )
    packs: tuple[int, ...] = ()
    unpromising: Callable[[Problem, Target], str | None] = field(default=lambda problem, target: None)
    kernels: Callable[[Problem, Signature, Schedule, Target], tuple[KernelSpec, ...]] = field(
        default=lambda problem, signature, schedule, target: ()
    )
    tolerance: float = 4.0
    approximate: bool = False
    computes: DType | None = None
