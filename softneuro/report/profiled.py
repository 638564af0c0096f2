"""A plan profiled: the time of every layer, of whole runs without looking inside, and what the machine could do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from softneuro import cpu
from softneuro.plan.plan import Provenance
from softneuro.report.rows import ADAPT, HOST, LAYER, Group, LayerRow, grouped, is_free, layer_rows, predicted_total, sum_ns
from softneuro.runtime.session import Session
from softneuro.tuning.peak import measure_peak
from softneuro.types import Array

__all__ = ["NOISY", "Profiled", "WholeRuns", "profiled", "summed_up", "time_runs"]

NOISY = 0.15
"""From this spread of whole runs on, differences of some per cent between layers cannot be told."""

_FEWEST_RUNS, _MOST_RUNS, _WANTED_NS = 5, 500, 1_000_000_000
_BLOCKS, _FEWEST_IN_BLOCK = 2, 3  # blocks before the timed runs, and as many after them
_WARM_NS = 30_000_000
Timer = Callable[[], int]


@dataclass(frozen=True)
class WholeRuns:
    """Nanoseconds of whole runs: their median and minimum, and the spread of the blocks' medians ((largest - smallest) /
    median of all)."""

    runs: int
    median_ns: float
    minimum_ns: float
    spread: float

    @property
    def is_noisy(self) -> bool:
        """Whether something else seems to use the machine."""
        return self.spread > NOISY


@dataclass(frozen=True)
class Profiled:
    """rows: layers and adapts in the order they run, median over ``repeat`` timed runs. whole: runs without looking inside,
    before and after those. peak_gflops: float32 arithmetic of all threads together, as measured. made: what the plan was
    made from."""

    rows: tuple[LayerRow, ...]
    whole: WholeRuns
    repeat: int
    threads: int
    peak_gflops: float
    machine: str
    target: str
    made: Provenance

    @property
    def total_ns(self) -> float:
        """The sum of all rows."""
        return sum_ns(self.rows)

    @property
    def predicted_ns(self) -> float | None:
        """The sum of what tuning measured; None where it did not measure every row for these shapes and threads."""
        total = predicted_total(self.rows)
        if total is None and predicted_total([row for row in self.rows if row.kind != ADAPT]) is not None:
            return self.made.predicted_ns  # a plan that kept only its layers' times
        return total

    @property
    def subtotals(self) -> list[Group]:
        """Layers, adapts and host layers taken together, those that there are; of rows that take time only."""
        groups = {group.name: group for group in grouped([row for row in self.rows if not is_free(row)], lambda row: row.kind)}
        return [groups[kind] for kind in (LAYER, ADAPT, HOST) if kind in groups]

    def data(self) -> dict[str, Any]:
        """All of it as plain data for JSON."""
        return {
            "model": self.made.model, "machine": self.machine, "target": self.target, "threads": self.threads,
            "runs": self.repeat, "peak_gflops": self.peak_gflops, "total_ns": self.total_ns, "predicted_ns": self.predicted_ns,
            "whole_run": asdict(self.whole) | {"noisy": self.whole.is_noisy},
            "subtotals": [asdict(group) for group in self.subtotals],
            "rows": [
                asdict(row) | {"gflops": row.gflops, "peak_share": row.peak_share(self.peak_gflops)} for row in self.rows
            ],
        }  # fmt: skip


def profiled(session: Session, feeds: Mapping[str, Array], repeat: int | None = None) -> Profiled:
    """Run a plan and see where its time goes.

    repeat: timed runs; by default as many as take about a second, 5 to 500. About as many untimed ones are made, half
    before and half after.
    Raises InputError when the feeds do not fit, CompileError when the peak cannot be measured.
    """
    run = session.bind(feeds).run
    count = repeat or _runs_of_a_second(time_runs(run, 1)[0])
    block = max(_FEWEST_IN_BLOCK, count // (2 * _BLOCKS))
    before = [time_runs(run, block) for _ in range(_BLOCKS)]
    rows = layer_rows(session, feeds, count)
    after = [time_runs(run, block) for _ in range(_BLOCKS)]
    peak = measure_peak(session.target, session.threads, levels=()).gflops
    whole = summed_up(before + after)
    return Profiled(tuple(rows), whole, count, session.threads, peak, cpu.fingerprint(), session.target.name,
                    session.plan.provenance)


def time_runs(run: Callable[[], object], repeat: int, timer: Timer = time.perf_counter_ns) -> list[int]:
    """Nanoseconds of ``repeat`` runs, after some that are not counted until caches and processors are warm."""
    began = timer()
    run()
    while timer() - began < _WARM_NS:
        run()
    times = []
    for _ in range(repeat):
        start = timer()
        run()
        times.append(timer() - start)
    return times


def summed_up(blocks: Sequence[Sequence[int]]) -> WholeRuns:
    """The runs of all blocks together."""
    every = [ns for block in blocks for ns in block]
    medians = [float(np.median(block)) for block in blocks]
    median = float(np.median(every))
    return WholeRuns(len(every), median, float(min(every)), (max(medians) - min(medians)) / max(median, 1.0))


def _runs_of_a_second(ns: int) -> int:
    return max(_FEWEST_RUNS, min(_MOST_RUNS, _WANTED_NS // max(ns, 1)))
