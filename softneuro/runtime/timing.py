"""Where the time of an inference goes, from what every thread notes during timed runs.

Native steps are stamped by the processor's cycle counter, host steps by `time.perf_counter_ns`. `_Clock` brings the
two together: the counter is taken to run at a constant rate and alike on all processors, as it does on every x86-64
CPU of the last fifteen years.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from softneuro.plan.program import HostStep
from softneuro.runtime.context import Context, Stamps
from softneuro.runtime.link import Linked
from softneuro.runtime.team import Team
from softneuro.types import Array

__all__ = ["Kind", "Span", "Timeline", "profile_context", "trace_context"]

_CALIBRATION_NS = 10_000_000
"""Least time between the two readings that give the counter's rate: a reading is certain to a few microseconds."""


class Kind(enum.StrEnum):
    """What a thread does during a span."""

    WORK = "work"
    WAIT = "wait"
    HOST = "host"


@dataclass(frozen=True)
class Span:
    """A stretch of one thread's time.

    thread: 0 is the caller of the run. name: the layer or adapt, as in `Session.profile`. kind: the thread's own part
    of the layer's work (WORK), waiting for the others to finish theirs (WAIT), or a layer that the host computes in
    numpy (HOST). start_ns, end_ns: nanoseconds since the first run began. run: counted from 0. launch: which of the
    layer's kernel launches, from 0.
    """

    thread: int
    name: str
    kind: Kind
    start_ns: int
    end_ns: int
    run: int = 0
    launch: int = 0

    @property
    def ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Timeline:
    """What every thread did during real runs.

    spans: by thread, then by time; those of one thread never overlap. Layers that cost nothing, such as views, have
    none; what lies between spans is the waking of threads and the interpreter. runs: start and end of each run in
    nanoseconds since the first began.
    """

    threads: int
    spans: tuple[Span, ...]
    runs: tuple[tuple[int, int], ...]

    def of_thread(self, thread: int) -> tuple[Span, ...]:
        """The spans of one thread, in time."""
        return tuple(span for span in self.spans if span.thread == thread)


@dataclass(frozen=True)
class _Clock:
    """The wall clock, `time.perf_counter_ns`, at a cycle count: ``base_ns + (count - base) * ns_a_cycle``."""

    base: int
    base_ns: float
    ns_a_cycle: float

    @classmethod
    def of(cls, first: Stamps, runs: Sequence[Stamps]) -> _Clock:
        """From an early run and later ones.

        The rate is that between the first and the last reading. Every segment bounds the offset on both sides, for
        its stamps were taken after it was begun and before it returned: the middle of what all bounds allow is used.
        """
        readings = [_readings(stamps) for stamps in (first, *runs)]
        early, late = readings[0][-1], readings[-1][-1]
        rate = (late[3] - early[3]) / max(1, late[1] - early[1])
        base = early[0]
        counts = np.array([reading for run in readings for reading in run], np.int64)
        least = np.max(counts[:, 2] - (counts[:, 0] - base) * rate)
        most = np.min(counts[:, 3] - (counts[:, 1] - base) * rate)
        return cls(base, float(least + most) / 2, rate)

    def ns(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Nanoseconds of the wall clock at cycle counts."""
        return np.asarray(self.base_ns + (counts - self.base) * self.ns_a_cycle, np.float64)


def _readings(stamps: Stamps) -> list[tuple[int, int, int, int]]:
    """For each native segment: first and last cycle count of thread 0, and the wall clock before and after."""
    counts = stamps.cycles[0]
    return [(int(counts[first, 0]), int(counts[first + n - 1, 2]), start, end) for first, n, start, end in stamps.segments]


def _timed_runs(context: Context, team: Team, dynamic: Mapping[str, Array], count: int) -> tuple[list[Stamps], _Clock | None]:
    """``count`` timed runs after warming up, and the clock of their stamps (None without native steps)."""
    first = context.run_timed(team, dynamic)
    began = time.perf_counter_ns()
    while time.perf_counter_ns() - began < _CALIBRATION_NS:
        context.run_timed(team, dynamic)
    runs = [context.run_timed(team, dynamic) for _ in range(count)]
    return runs, _Clock.of(first, runs) if first.segments else None


def profile_context(context: Context, linked: Linked, team: Team, dynamic: Mapping[str, Array],
                    repeat: int) -> list[tuple[str, float]]:
    """Median nanoseconds of every placed layer and adapt over ``repeat`` timed runs, in the order they run.

    A native layer's time is that of its steps with the barriers after them, as the caller's thread sees it.
    """
    runs, clock = _timed_runs(context, team, dynamic, repeat)
    step_ns = np.zeros(len(linked.program.steps))
    native, hosts = _step_indices(linked)
    if clock is not None:
        counts = np.stack([stamps.cycles[0, :, 2] - stamps.cycles[0, :, 0] for stamps in runs])
        step_ns[native] = np.median(counts, axis=0) * clock.ns_a_cycle
    if hosts:
        step_ns[hosts] = np.median([[end - start for start, end in stamps.hosts] for stamps in runs], axis=0)
    return [(placed.name, float(step_ns[placed.steps.start : placed.steps.stop].sum())) for placed in linked.program.placed]


def trace_context(context: Context, linked: Linked, team: Team, dynamic: Mapping[str, Array], runs: int) -> Timeline:
    """What every thread did in ``runs`` timed runs, after warming up."""
    noted, clock = _timed_runs(context, team, dynamic, runs)
    native, hosts = _step_indices(linked)
    labels = _labels(linked)
    origin = min((start for stamps in noted[:1] for start, _ in _walls(stamps)), default=0)
    spans: list[Span] = []
    for run, stamps in enumerate(noted):
        for step, (start, end) in zip(hosts, stamps.hosts, strict=True):
            name, launch = labels[step]
            spans.append(Span(0, name, Kind.HOST, start - origin, end - origin, run, launch))
        for first, count, start, end in stamps.segments:
            assert clock is not None
            walls = np.clip(clock.ns(stamps.cycles[:, first : first + count]), start, end)
            times = np.rint(walls - origin).astype(np.int64)
            steps = [labels[step] for step in native[first : first + count]]
            spans += _native_spans(times, steps, run)
    spans.sort(key=lambda span: (span.thread, span.start_ns, span.end_ns))
    extents = tuple((min(s for s, _ in w) - origin, max(e for _, e in w) - origin) for w in map(_walls, noted) if w)
    return Timeline(team.size, tuple(spans), extents)


def _native_spans(times: npt.NDArray[np.int64], steps: Sequence[tuple[str, int]], run: int) -> list[Span]:
    """Work and waiting of every thread in one segment; a thread alone waits for nobody."""
    spans = []
    for thread, rows in enumerate(times.tolist()):
        for (name, launch), (began, ended, passed) in zip(steps, rows, strict=True):
            spans.append(Span(thread, name, Kind.WORK, began, ended, run, launch))
            if len(times) > 1 and passed > ended:
                spans.append(Span(thread, name, Kind.WAIT, ended, passed, run, launch))
    return spans


def _step_indices(linked: Linked) -> tuple[list[int], list[int]]:
    """Indices of the native steps, and of the host steps."""
    native: list[int] = []
    hosts: list[int] = []
    for index, step in enumerate(linked.program.steps):
        (hosts if isinstance(step, HostStep) else native).append(index)
    return native, hosts


def _labels(linked: Linked) -> dict[int, tuple[str, int]]:
    """For each step the name of its layer or adapt, and which launch of it the step is."""
    placed = linked.program.placed
    return {step: (item.name, launch) for item in placed for launch, step in enumerate(item.steps)}


def _walls(stamps: Stamps) -> list[tuple[int, int]]:
    """Start and end on the wall clock of all that ran."""
    return [*stamps.hosts, *((start, end) for _, _, start, end in stamps.segments)]
