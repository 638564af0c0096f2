"""Where the time of an inference goes, from cycle counts that the native runner notes after every step."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from softneuro.plan.program import HostStep
from softneuro.runtime.context import Context
from softneuro.runtime.link import Linked
from softneuro.runtime.team import Team
from softneuro.types import Array

__all__ = ["profile_context"]


def profile_context(context: Context, linked: Linked, team: Team, dynamic: Mapping[str, Array],
                    repeat: int) -> list[tuple[str, float]]:
    """Median nanoseconds of every placed layer and adapt over ``repeat`` timed runs.

    The cycle counter's rate is taken from the wall clock over all runs. A host layer's time is the wall clock of
    the run less the native segments, shared out evenly when there are several.
    """
    native = [index for index, step in enumerate(linked.program.steps) if not isinstance(step, HostStep)]
    hosts = len(linked.program.steps) - len(native)
    context.run(team, dynamic, timed=True)
    cycles = np.zeros((repeat, len(native)), np.float64)
    walls = np.zeros(repeat)
    first_stamp, began = _now(context)
    for turn in range(repeat):
        start = time.perf_counter_ns()
        context.run(team, dynamic, timed=True)
        walls[turn] = time.perf_counter_ns() - start
        cycles[turn] = np.diff(context.stamps)
    last_stamp, ended = _now(context)
    rate = (ended - began) / max(1, last_stamp - first_stamp)
    native_ns = cycles * rate
    step_ns = np.zeros(len(linked.program.steps))
    step_ns[native] = np.median(native_ns, axis=0)
    if hosts:
        rest = float(np.median(walls - native_ns.sum(axis=1)))
        step_ns[[i for i in range(len(step_ns)) if i not in set(native)]] = max(0.0, rest) / hosts
    return [(placed.name, float(step_ns[placed.steps.start : placed.steps.stop].sum())) for placed in linked.program.placed]


def _now(context: Context) -> tuple[int, int]:
    """The last cycle count noted, and the clock just after."""
    return int(context.stamps[-1]), time.perf_counter_ns()
