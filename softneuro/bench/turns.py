"""Engines take turns on one model: so that drift of the machine hits all alike."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softneuro.bench.engines import OURS, Engine
from softneuro.bench.process import EngineFailed, EngineProcess
from softneuro.bench.statistics import DIFFERENT, Result, schedule
from softneuro.compare import differences
from softneuro.types import Array

__all__ = ["Case", "Found", "LeftOut", "measure", "start"]

_PAUSE_SECONDS = 0.05  # threads of an engine spin for a while after its turn
_FEWEST_TURNS = 3
_WARM_UP_SECONDS = 0.3


@dataclass(frozen=True)
class Case:
    """One model at one number of threads, with the feeds of a run.

    name: what to call the model. model: the ONNX file for the peers, None without any. batch: samples in the feeds.
    peak_gflops: the machine's measured peak for these threads, 0 if unknown.
    """

    name: str
    plan: Path
    model: Path | None
    threads: int
    batch: int
    feeds: Mapping[str, Array]
    peak_gflops: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}, threads {self.threads}, batch {self.batch}"


@dataclass(frozen=True)
class LeftOut:
    """An engine that could not take part in a case, and why."""

    engine: str
    case: str
    reason: str


@dataclass
class Found:
    """What was measured, and who could not take part; grows, so that an interruption loses nothing."""

    results: list[Result] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


Progress = Callable[[str, int, int], None]
"""Told between turns: what comes next, turns done, turns in all (0: not known yet)."""


def measure(case: Case, peers: Sequence[Engine], seconds: float, folder: Path, found: Found, progress: Progress) -> None:
    """Let our engine and the peers run a case for ``seconds`` each, after a turn that does not count; adds to ``found``.

    A peer that cannot run the model, or that ends, is left out. Interrupted, it adds what was measured until then.

    Raises EngineFailed when our own engine cannot run the plan.
    """
    with contextlib.ExitStack() as stack:
        running: list[EngineProcess] = []
        gaps: dict[str, float] = {}
        for engine in (OURS, *peers):
            progress(f"{case}: {engine.name} starts", 0, 0)
            with _leaving_out(engine.name, case, found):
                process = stack.enter_context(_ready(engine, case, folder))
                if running:
                    gaps[engine.name] = _agreement(engine, running[0].outputs, process.outputs)
                running.append(process)
        try:
            _take_turns(case, running, seconds, found, progress)
        finally:
            found.results += [_result(case, p, gaps.get(p.name)) for p in running if p.rounds]


def start(engine: Engine, case: Case, folder: Path) -> EngineProcess:
    """Start an engine on a case, and run it once. Raises EngineFailed."""
    source = case.plan if engine is OURS else case.model
    assert source is not None, "peers need the model"
    model = engine.prepare(source, case.feeds, folder)
    return EngineProcess(engine.name, engine.adapter, model, case.threads, case.feeds, folder)


def _ready(engine: Engine, case: Case, folder: Path) -> EngineProcess:
    """Start an engine; once more when it had to compile first, which is no part of a start on this machine from then on."""
    process = start(engine, case, folder)
    if not process.greeting["compiled"]:
        return process
    process.close()
    return start(engine, case, folder)


@contextlib.contextmanager
def _leaving_out(name: str, case: Case, found: Found) -> Iterator[None]:
    """A peer's failure ends the block and is noted; ours is raised."""
    try:
        yield
    except EngineFailed as error:
        if name == OURS.name:
            raise
        found.left_out.append(LeftOut(name, str(case), str(error)))


def _take_turns(case: Case, running: list[EngineProcess], seconds: float, found: Found, progress: Progress) -> None:
    def turn(process: EngineProcess, length: float) -> list[int]:
        time.sleep(_PAUSE_SECONDS)
        times: list[int] = []
        with _leaving_out(process.name, case, found):
            times = process.turn(length)
        if not times:
            running.remove(process)
            process.rounds.clear()
        return times

    slowest = 0.0
    for process in list(running):
        progress(f"{case}: {process.name} warms up", 0, 0)
        times = turn(process, min(_WARM_UP_SECONDS, seconds / _FEWEST_TURNS))
        slowest = max(slowest, float(np.median(times))) if times else slowest
    rounds, length = schedule(seconds, slowest)
    for number in range(rounds):
        for place, process in enumerate(list(running)):
            progress(f"{case}: {process.name}", number * len(running) + place, rounds * len(running))
            times = turn(process, length)
            if times:
                process.rounds.append(times)


def _agreement(engine: Engine, ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest difference of outputs, relative to the output's largest value; infinite where shapes differ.

    Raises EngineFailed when a translated model gives something else.
    """
    gap = math.inf
    if len(ours) == len(theirs):
        pairs = ((np.asarray(a), _like(np.asarray(b), np.asarray(a))) for a, b in zip(ours, theirs, strict=True))
        gap = max((row.relative for a, b in pairs for row in differences({"": b}, {"": a})), default=0.0)
    if engine.converted and not gap <= DIFFERENT:
        raise EngineFailed(f"{engine.name}: its translation of the model gives other outputs than ours "
                           f"(largest relative difference {gap:.2g}), needed at most {DIFFERENT:g}")
    return gap


def _like(theirs: Array, ours: Array) -> Array:
    """Their output in our shape and data type, where only axes of size one or the width of numbers differ."""
    numbers = theirs.dtype.kind in "fiub" and ours.dtype.kind in "fiub"
    if numbers and [size for size in theirs.shape if size != 1] == [size for size in ours.shape if size != 1]:
        return theirs.reshape(ours.shape).astype(ours.dtype)
    return theirs


def _result(case: Case, process: EngineProcess, difference: float | None) -> Result:
    told = process.greeting
    return Result(
        case.name, process.name, told["version"], case.threads, case.batch, process.rounds, told["macs"], case.peak_gflops,
        told["import_ns"], told["load_ns"], told["first_ns"], process.peak_bytes, difference,
    )  # fmt: skip
