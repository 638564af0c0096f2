"""Launches of the kernel that walks the steps of recurrent layers: its memory, its words, its variants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from softneuro.codegen.conventions import CACHE_LINE
from softneuro.codegen.recurrence import ADVANCE, ALL_PHASES, CELL_GATES, FINISH, PRODUCT, START
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.integer import QuantisedStateLstm
from softneuro.ops.pointwise import inline
from softneuro.ops.recurrent import GATES, Recurrent
from softneuro.problem import Problem
from softneuro.routines.recurrent_weights import BIASES, PEEPHOLES, SECOND_BIASES, SECOND_WEIGHTS, WEIGHTS, cell_kind
from softneuro.routines.routine import Address, Launch, Schedule, Word, packed, scratch, source, target_of
from softneuro.routines.sizes import round_up
from softneuro.types import DType

__all__ = ["CELL", "HIDDEN", "LENGTHS", "PEEP", "SCALES", "Scratch", "Sizes", "Walk", "feeding_kernel", "given",
           "rounds_states", "scratch_of", "sizes_of", "stored_weights", "walk_kernel", "walk_launches", "walks_of"]

LENGTHS, HIDDEN, CELL, PEEP, SCALES = 4, 5, 6, 7, 8
"""Positions of the optional inputs after the bias."""
_GATES_WITH_CLIP = 2


def _op(problem: Problem) -> Recurrent:
    return cast(Recurrent, problem.op)


def rounds_states(op: Recurrent) -> bool:
    """Whether the states are rounded to 8 bits before the product."""
    return isinstance(op, QuantisedStateLstm)


def stored_weights(problem: Problem) -> DType:
    """How the recurrent weights are stored: float32, or whole numbers where the states are rounded."""
    return problem.input(2).dtype


def _prepares_states(op: Recurrent) -> bool:
    """Whether a product reads what is made of the states, not themselves."""
    return rounds_states(op) or CELL_GATES[cell_kind(op)][1] > 0


def given(problem: Problem, index: int) -> bool:
    """Whether an optional input is there."""
    return index < len(problem.inputs) and problem.inputs[index] is not None


@dataclass(frozen=True)
class Sizes:
    """The numbers of a problem; blocks: vectors that hold the hidden units, units: rounded up to these."""

    steps: int
    n: int
    features: int
    hidden: int
    units: int
    blocks: int
    gates: int
    directions: int


def sizes_of(problem: Problem, target: Target) -> Sizes:
    """The sizes for a target's vectors."""
    op, (first, second, features) = _op(problem), problem.input(0).shape
    steps, n = (second, first) if op.batch_first else (first, second)
    units = round_up(op.hidden, target.f32_lanes)
    return Sizes(steps, n, features, op.hidden, units, units // target.f32_lanes, GATES[op.kind], op.directions)


@dataclass(frozen=True)
class Scratch:
    """Where the kernel's memory is (see `softneuro.codegen.kernels.recurrent`), and all its bytes."""

    fed: Address
    states: Address
    memories: Address
    sums: Address
    prepared: Address
    second_sums: Address
    nbytes: int


def scratch_of(problem: Problem, sizes: Sizes) -> Scratch:
    """The layout of the scratch memory."""
    state = 4 * sizes.directions * sizes.n * sizes.units
    (first, second), prepares = CELL_GATES[cell_kind(_op(problem))], _prepares_states(_op(problem))
    sizes_in_bytes = (sizes.steps * sizes.gates * state, 2 * state, state, first * state, prepares * state, second * state)
    ends = list(itertools.accumulate((round_up(nbytes, CACHE_LINE) for nbytes in sizes_in_bytes), initial=0))
    fed, states, memories, sums, prepared, second_sums = map(scratch, ends[:-1])
    return Scratch(fed, states, memories, sums, prepared, second_sums, ends[-1])


@dataclass(frozen=True)
class Walk:
    """Directions that share a kernel: the first, how many, and their activations as the kernel takes them."""

    first: int
    count: int
    activations: str


def walks_of(op: Recurrent) -> tuple[Walk, ...]:
    """All directions at once, or each on its own when their activations differ. The clip is part of the activations."""
    count = len(op.activations) // op.directions
    programs = [inline(program, 0, f"clip(x0,{-op.clip!r},{op.clip!r})")
                if op.clip is not None and i % count < _GATES_WITH_CLIP else program
                for i, program in enumerate(op.activations)]
    joined = ["|".join(programs[d * count : (d + 1) * count]) for d in range(op.directions)]
    if len(set(joined)) == 1:
        return (Walk(0, op.directions, joined[0]),)
    return tuple(Walk(d, 1, text) for d, text in enumerate(joined))


def walk_kernel(problem: Problem, schedule: Schedule, walk: Walk) -> KernelSpec:
    """The kernel of the steps."""
    op = _op(problem)
    return KernelSpec.of("recurrent", kind=cell_kind(op), rows=schedule["rows"], blocks=schedule["blocks"],
                         activations=walk.activations, coupled=op.coupled, peepholes=given(problem, PEEP),
                         stored=stored_weights(problem).value)


def feeding_kernel(schedule: Schedule) -> KernelSpec:
    """The kernel of the input's product."""
    return KernelSpec.of("matmul_packed", mr=schedule["mr"], nv=schedule["nv"], epilogue="")


def _rounds(problem: Problem, sizes: Sizes, split: bool) -> Iterator[tuple[int, int, int]]:
    """(first step, steps, phases) of every launch."""
    if not split:
        yield 0, sizes.steps, ALL_PHASES
        return
    yield 0, 0, START
    for step in range(sizes.steps):
        if _prepares_states(_op(problem)):
            yield step, 1, PRODUCT
            yield step, 1, ADVANCE
        else:
            yield step, 1, PRODUCT | ADVANCE
    yield 0, 0, FINISH


def _panel_word(sizes: Sizes, index: int, direction: int, depth: int, gates: int, dtype: DType = DType.F32) -> Address:
    """The panels of a direction: float32 [block][depth][gate][lane], whole numbers [block][depth / 2][gate][lane][2]."""
    rows = depth if dtype is DType.F32 else round_up(depth, 2)
    return packed(index, dtype.itemsize * direction * rows * gates * sizes.units)


def walk_launches(problem: Problem, sizes: Sizes, memory: Scratch, schedule: Schedule, walk: Walk) -> Iterator[Launch]:
    """The launches of the directions of a walk: one, or with the schedule's ``split`` one or two for every step."""
    op, d = _op(problem), walk.first
    first, second = CELL_GATES[cell_kind(op)]
    row, fed_row = 4 * sizes.hidden, 4 * sizes.directions * sizes.gates * sizes.units
    if op.batch_first:
        fed = (fed_row, sizes.steps * fed_row)
        state = (row, sizes.directions * row)
        y = (sizes.directions * row, row, sizes.steps * sizes.directions * row)
    else:
        fed = (sizes.n * fed_row, fed_row)
        state = (sizes.n * row, row)
        y = (sizes.directions * sizes.n * row, sizes.n * row, row)

    def optional(index: int, offset: int) -> Word:
        return source(index, offset) if given(problem, index) else 0

    remembers, lengths = op.kind == "lstm", given(problem, LENGTHS)
    backwards = {"forward": 0, "reverse": 1, "bidirectional": 2}[op.direction] >> d
    split = bool(schedule["split"])
    together = split or rounds_states(op)  # the range that states are rounded in is that of all elements
    row_shares = 1 if together else max(1, min(sizes.n, math.ceil(problem.threads / walk.count)))
    unit_shares = problem.threads if split else 1
    words: tuple[Word, ...] = (
        scratch(memory.fed.offset + 4 * d * sizes.gates * sizes.units), *fed,
        memory.states, memory.memories, memory.sums, memory.prepared, memory.second_sums,
        _panel_word(sizes, WEIGHTS, d, sizes.hidden, first, stored_weights(problem)), _panel_word(sizes, BIASES, d, 1, first),
        _panel_word(sizes, SECOND_WEIGHTS, d, sizes.hidden, second), _panel_word(sizes, SECOND_BIASES, d, 1, second),
        _panel_word(sizes, PEEPHOLES, d, 1, 3) if given(problem, PEEP) else 0,
        optional(HIDDEN, d * state[0]), optional(CELL, d * state[0]) if remembers else 0, *state,
        target_of(0, d * y[1]), *y,
        target_of(1, d * state[0]), target_of(2, d * state[0]) if remembers else 0,
        optional(LENGTHS, 0), 4 if lengths and problem.input(LENGTHS).dtype is DType.I32 else 8,
        sizes.steps, sizes.n, sizes.hidden, walk.count, backwards,
    )  # fmt: skip
    kernel = walk_kernel(problem, schedule, walk)
    for first_step, count, phases in _rounds(problem, sizes, split):
        yield Launch(kernel, (*words, first_step, count, phases, row_shares, unit_shares))
