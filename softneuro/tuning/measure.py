"""The one stopwatch: candidates of a problem checked against the reference, then timed side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softneuro.codegen.target import Target
from softneuro.errors import SoftneuroError
from softneuro.feeds import random_array
from softneuro.memory import aligned, aligned_empty
from softneuro.plan.lower import lower_candidate
from softneuro.plan.plan import Choice
from softneuro.plan.program import Packing, Program, Stored
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation, encoded, restored
from softneuro.routines.candidates import narrow_dtypes_of, routine_named
from softneuro.runtime.context import Context
from softneuro.runtime.link import link
from softneuro.runtime.team import Team
from softneuro.tuning.profile import Measurement
from softneuro.types import Array, DType, Format

__all__ = ["EFFORTS", "Effort", "WrongResult", "copies_of", "measure", "measure_host"]

Timer = Callable[[], int]
_MOST_PACKED_BYTES = 1 << 28
_SHORT_ROUND = 3
_NARROW_ERROR = {DType.QINT8: 0.05, DType.BF16: 0.02, DType.F16: 0.005}
"""What a routine's output may differ by, as relative L2, where tensors are kept in fewer bits: several times what rounding
does to random operands. The error that counts is measured on the model."""


class WrongResult(SoftneuroError):
    """A routine's output differs from the reference: it is not timed, and never chosen."""


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    A short first round over a few copies of the layer sorts out the hopeless; ``blocks`` rounds over all copies
    follow. short_ns, block_ns: least time of a candidate in a round. hopeless: after each round, the first
    included, candidates this many times slower than the best are dropped (the last number holds for all later
    rounds).
    """

    blocks: int = 4
    short_ns: int = 100_000
    block_ns: int = 1_000_000
    hopeless: tuple[float, ...] = (1.6, 1.25, 1.15)


EFFORTS: Mapping[int, Effort] = {
    1: Effort(blocks=2, short_ns=50_000, block_ns=400_000, hopeless=(1.3, 1.1)),
    2: Effort(),
    3: Effort(blocks=9, short_ns=200_000, block_ns=2_000_000, hopeless=(2.0, 1.5, 1.3, 1.2)),
}
"""The levels of ``softneuro tune --effort``: quick, usual, thorough. Level 0 measures nothing."""


@dataclass
class _Trial:
    """A candidate on the bench: its program laid out in memory, and the times so far."""

    choice: Choice
    context: Context
    copies: int
    launches: int
    best_of_blocks: list[float]

    def block(self, team: Team, copies: int, least_ns: int, timer: Timer) -> float:
        """The fastest run over ``copies`` of the layer in ``least_ns`` or more, in nanoseconds of one copy."""
        best, spent = math.inf, 0
        while spent < least_ns:
            start = timer()
            self.context.run_first(team, copies * self.launches)
            elapsed = timer() - start
            best, spent = min(best, elapsed), spent + max(elapsed, 1)
        return best / copies

    def measurement(self) -> Measurement:
        """Median of the block minima, and their spread; the short first round counts only if there was no other."""
        samples = self.best_of_blocks[1:] or self.best_of_blocks
        median = float(np.median(samples))
        return Measurement(median, (max(samples) - min(samples)) / max(median, 1.0))


def _operands(problem: Problem) -> tuple[list[Array | None], tuple[Array, ...]]:
    """Values for every input, and what the reference makes of them: normal floats, and small whole numbers, which
    are all 0 where an op refuses others (an index into an axis of one element)."""
    try:
        return _tried(problem, most=1)
    except SoftneuroError:
        return _tried(problem, most=0)


def _tried(problem: Problem, most: int) -> tuple[list[Array | None], tuple[Array, ...]]:
    rng = np.random.default_rng(0)
    values = [None if t is None else random_array(t.dtype, t.shape, rng, most=most) for t in problem.inputs]
    for i, value in enumerate(values):  # weights of this size keep layers with a state from multiplying what was rounded
        if value is not None and problem.constant[i] and value.dtype.kind == "f" and value.ndim > 1:
            values[i] = (value / math.sqrt(max(1, value.shape[-1]))).astype(value.dtype)
    made_up = problem.op.made_up(problem.inputs, rng)
    values = values if made_up is None else list(made_up)
    with np.errstate(all="ignore"):
        return values, problem.op.reference(values)


class _CopiedWeights:
    """Packs once and hands out copies, so that every copy of the layer finds its weights cold."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def packed(self, packings: Sequence[Packing]) -> Sequence[tuple[Array, ...]]:
        first: tuple[Array, ...] | None = None
        result = []
        for each in packings:
            if first is None:
                first = tuple(map(aligned, each.routine.pack(each.problem, each.schedule, self._target, each.constants)))
                result.append(first)
            else:
                result.append(tuple(_copy(array) for array in first))
        return result

    def laid_out(self, array: Array, wanted: Format, quantisation: Quantisation | None) -> Array:
        return aligned(encoded(array, wanted, quantisation))


def _copy(array: Array) -> Array:
    fresh = aligned_empty(array.shape, array.dtype)
    fresh[...] = array
    return fresh


def copies_of(problem: Problem, footprint: int) -> int:
    """Copies of the layer whose weights together exceed what stays in the caches of a run of the whole model."""
    weights = sum(t.nbytes for t, c in zip(problem.inputs, problem.constant, strict=True) if t is not None and c)
    if weights == 0:
        return 4
    wanted = math.ceil(min(footprint, 48 << 20) / weights)
    return max(1, min(24, wanted, _MOST_PACKED_BYTES // (4 * weights) or 1))


def _prepare(problem: Problem, choice: Choice, target: Target, operands: Sequence[Array | None],
             copies: int) -> tuple[Context, Program]:
    """A context that runs ``copies`` of the problem on the operands."""
    constants = {i: v for i, (v, c) in enumerate(zip(operands, problem.constant, strict=True)) if c and v is not None}
    program = lower_candidate(problem, choice, constants, target, copies, _CopiedWeights(target))
    context = Context(link(program, target), target)
    for name, place in program.inputs.items():
        assert isinstance(place, Stored)
        index = int(name[1:])
        value = operands[index]
        assert value is not None
        context.bind(place.buffer, aligned(encoded(value, place.format, problem.input_quantisation(index))))
    return context, program


def _verify(context: Context, program: Program, launches: int, team: Team, choice: Choice, problem: Problem,
            expected: Sequence[Array]) -> None:
    """Run the first copy and compare. Raises WrongResult when an output is further off than rounding explains."""
    context.run_first(team, launches)
    narrow = narrow_dtypes_of(problem, routine_named(choice.routine, type(problem.op)), choice.signature)
    allowed = max((_NARROW_ERROR[dtype] for dtype in narrow), default=None)
    for index, (place, want) in enumerate(zip(program.outputs.values(), expected, strict=True)):
        assert isinstance(place, Stored)
        got = restored(context.view(place), place.format.dtype, place.type.dtype, problem.output_quantisation(index))
        if want.dtype.kind != "f":
            close = bool(np.array_equal(got, want))
        elif allowed is not None:
            close = _distance(got, want) <= allowed
        else:
            scale = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))) or 1.0
            close = _close(got, want, 2e-3 * scale)
        if not close:
            raise WrongResult(f"routine {choice} gives a wrong result")


def _distance(got: Array, want: Array) -> float:
    """The relative L2 distance of two arrays, in float64."""
    exact = want.astype(np.float64)
    norm = float(np.linalg.norm(exact)) or 1.0
    return float(np.linalg.norm(got.astype(np.float64) - exact)) / norm


def _with_ranges(problem: Problem, values: Sequence[Array | None]) -> Problem:
    """The problem with quantisations for the ranges of these inputs and outputs; those that were equal stay so."""
    members: dict[Quantisation, list[Array]] = {}
    for quantisation, value in zip(problem.quantisations, values, strict=False):
        if quantisation is not None and value is not None:
            members.setdefault(quantisation, []).append(value)
    ranges = {
        q: Quantisation.of_range(min(float(v.min(initial=0)) for v in of_q), max(float(v.max(initial=0)) for v in of_q))
        for q, of_q in members.items()
    }
    return problem.quantised([ranges.get(q) if q else None for q in problem.quantisations])


def _close(got: Array, want: Array, tolerance: float) -> bool:
    """Whether finite values differ by at most ``tolerance``, and infinities and NaN are the same."""
    with np.errstate(invalid="ignore"):
        quick = np.max(np.abs(got - want), initial=0.0) <= tolerance  # False when there is any NaN or infinity
    return bool(quick) or bool(np.allclose(got, want, rtol=0, atol=tolerance, equal_nan=True))


def measure(problem: Problem, choices: Sequence[Choice], target: Target, team: Team, *, footprint: int,
            effort: Effort | None = None, timer: Timer = time.perf_counter_ns,
            finished: Callable[[Choice, Measurement | SoftneuroError], None]) -> None:
    """Time the choices against each other and report each through ``finished``, failures as the error.

    footprint: bytes of weights of the whole model; copies of the layer rotate so that weights are as cold as they
    will be. Rounds over all candidates are interleaved, so that drift of the machine hits all alike.
    """
    how = effort or Effort()
    operands, expected = _operands(problem)
    problem = _with_ranges(problem, [*operands, *expected])
    copies = copies_of(problem, footprint)
    trials: list[_Trial] = []
    for choice in choices:
        try:
            context, program = _prepare(problem, choice, target, operands, copies)
            _verify(context, program, len(program.steps) // copies, team, choice, problem, expected)
        except SoftneuroError as error:
            finished(choice, error)
            continue
        trials.append(_Trial(choice, context, copies, len(program.steps) // copies, []))
    running = list(trials)
    for block in range(1 + how.blocks):
        for trial in running:
            copies = trial.copies if block else min(trial.copies, _SHORT_ROUND)
            least_ns = how.block_ns if block else how.short_ns
            trial.best_of_blocks.append(trial.block(team, copies, least_ns, timer))
        best = min((min(t.best_of_blocks) for t in running), default=0.0)
        factor = how.hopeless[min(block, len(how.hopeless) - 1)]
        running = [t for t in running if min(t.best_of_blocks) <= factor * best]
    for trial in trials:
        finished(trial.choice, trial.measurement())


def measure_host(problem: Problem, timer: Timer = time.perf_counter_ns) -> Measurement:
    """The time of the op's reference on the host: the better of two runs."""
    operands, _ = _operands(problem)
    times = []
    for _ in range(2):
        start = timer()
        problem.op.reference(operands)
        times.append(float(timer() - start))
    return Measurement(min(times), (max(times) - min(times)) / max(min(times), 1.0))

