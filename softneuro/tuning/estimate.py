"""What tuning would measure, and how long that should take: counted candidates, guessed speeds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from softneuro import cpu
from softneuro.codegen.jit import is_cached
from softneuro.codegen.precompile import WORTH_A_PROCESS
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.tuning.bench import Bench
from softneuro.tuning.costs import Costs, Site
from softneuro.tuning.measure import EFFORTS, Effort, copies_of
from softneuro.tuning.profile import Profile
from softneuro.tuning.request import Request
from softneuro.tuning.workload import prepare

__all__ = ["Estimate", "OpEstimate", "estimate"]

# Guesses, fitted to tunings of convolutional networks on one machine; only their order of magnitude carries over.
_GHZ = 3.5
_EFFICIENCY = 0.6  # of the arithmetic peak that an average candidate reaches
_BYTES_PER_NS = 8.0
_REFERENCE_MACS_PER_NS = 4.0
_REFERENCE_BYTES_PER_NS = 0.5
_PACK_BYTES_PER_NS = 1.5
_SETUP_NS = 3e6  # of a candidate: lowered, linked, run once
_LATE_SHARE = 0.4  # of the candidates that are still there after the short round
_KERNEL_SECONDS = 0.3
_WORKER_SECONDS = 1.0
_CHECKED_PLANS = 4
_CHECK_SECONDS = 1.0


@dataclass(frozen=True)
class OpEstimate:
    """What is to be done for the layers (or conversions) of one op.

    layers: how many have candidates; problems: distinct ones; candidates: of all problems; known: those that take no
    measuring, as the profile has them or they do nothing; kernels: to be compiled, those of an op before not counted again.
    """

    op: str
    layers: int
    problems: int
    candidates: int
    known: int
    kernels: int
    compile_seconds: float
    measure_seconds: float


@dataclass(frozen=True)
class Estimate:
    """prepare_seconds: what importing the model and listing candidates took just now; check_seconds: choosing, and
    comparing whole plans. time_limit: measuring ends then at the latest."""

    ops: tuple[OpEstimate, ...] = field(default_factory=tuple)
    prepare_seconds: float = 0.0
    check_seconds: float = 0.0
    time_limit: float | None = None

    @property
    def compile_seconds(self) -> float:
        """Of all ops."""
        return sum(row.compile_seconds for row in self.ops)

    @property
    def measure_seconds(self) -> float:
        """Of all ops, at most until the time limit."""
        whole = sum(row.measure_seconds for row in self.ops)
        return whole if self.time_limit is None else min(whole, max(0.0, self.time_limit - self.compile_seconds))

    @property
    def seconds(self) -> float:
        """The whole tuning."""
        return self.prepare_seconds + self.compile_seconds + self.measure_seconds + self.check_seconds


def estimate(request: Request) -> Estimate:
    """What `softneuro.tune` would do for a request, which it checks in the same way; nothing is compiled or measured."""
    began = time.monotonic()
    work = prepare(request)
    offers = work.offers(request)
    if not request.measures:
        return Estimate(prepare_seconds=time.monotonic() - began)
    costs = Costs(work.concretes, offers, request.target, request.threads, Profile(request.target, request.profile))
    if request.error_on_miss:
        costs.require_known()
    model = _Model(request, sum(array.nbytes for array in work.concretes[0].constants.values()), costs)
    prepared = time.monotonic() - began
    return Estimate(tuple(model.rows()), prepared, model.check_seconds(), request.time_limit)


class _Model:
    """The guessed speeds of one machine, for the candidates of one model."""

    def __init__(self, request: Request, footprint: int, costs: Costs) -> None:
        self._target, self._threads, self._footprint, self._costs = request.target, request.threads, footprint, costs
        self._effort = EFFORTS[request.effort]
        self._macs_per_ns = self._threads * _lanes(self._target) * 2 * _GHZ * _EFFICIENCY
        self._seen: set[KernelSpec] = set()

    def rows(self) -> Iterable[OpEstimate]:
        """One for each op, in the order of the layers; conversions last."""
        workers = max(1, min(cpu.allowed_cpus(), len(self._uncached(self._costs.benches)) // WORTH_A_PROCESS))
        groups: dict[str, list[Site]] = {}
        for site in (*self._costs.layers.values(), *self._costs.adapts.values()):
            groups.setdefault(next(bench.problem.op.name for bench in site.benches if bench), []).append(site)
        for op, sites in groups.items():
            benches = list(dict.fromkeys(bench for site in sites for bench in site.benches if bench))
            kernels = self._uncached(benches) - self._seen
            start = 0.0 if self._seen or not kernels else _WORKER_SECONDS
            self._seen |= kernels
            candidates, missing = sum(len(b.choices) for b in benches), sum(len(b.missing()) for b in benches)
            yield OpEstimate(op, len(sites), len(benches), candidates, candidates - missing, len(kernels),
                             start + len(kernels) * _KERNEL_SECONDS / workers, sum(map(self._seconds, benches)))  # fmt: skip

    def check_seconds(self) -> float:
        """Choosing, and the weights of the compared plans packed."""
        return _CHECK_SECONDS + _CHECKED_PLANS * self._footprint / _PACK_BYTES_PER_NS / 1e9

    def _uncached(self, benches: Sequence[Bench]) -> set[KernelSpec]:
        wanted = {spec for bench in benches for index in bench.missing() for spec in bench.kernels[index]}
        return {spec for spec in wanted if not is_cached(spec, self._target)}

    def _seconds(self, bench: Bench) -> float:
        """Of measuring what is missing of a problem."""
        problem, missing = bench.problem, len(bench.missing())
        if not missing:
            return 0.0
        once = problem.macs() / _REFERENCE_MACS_PER_NS + problem.nbytes() / _REFERENCE_BYTES_PER_NS
        if bench.host:
            return 3 * once / 1e9
        copies = copies_of(problem, self._footprint)
        setup = _SETUP_NS + copies * _weights(problem) / _PACK_BYTES_PER_NS
        ns = problem.macs() / self._macs_per_ns + problem.nbytes() / _BYTES_PER_NS
        return (once + missing * (setup + ns) + self._rounds(self._effort, missing, ns, copies)) / 1e9

    def _rounds(self, effort: Effort, candidates: int, ns: float, copies: int) -> float:
        """Nanoseconds of all rounds over the candidates."""
        short = max(effort.short_ns, min(copies, 3) * ns)
        block = max(effort.block_ns, copies * ns)
        return candidates * short + math.ceil(candidates * _LATE_SHARE) * effort.blocks * block


def _lanes(target: Target) -> int:
    return target.f32_lanes


def _weights(problem: Problem) -> int:
    return sum(t.nbytes for t, constant in zip(problem.inputs, problem.constant, strict=True) if t is not None and constant)
