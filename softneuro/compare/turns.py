"""How long several engines take for the same inputs, taken in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from softneuro.types import Array

__all__ = ["times_in_turns"]

_TURNS = 7
_PAUSE_SECONDS = 0.03


def times_in_turns(engines: Mapping[str, Callable[[Mapping[str, Array]], object]],
                   samples: Sequence[Mapping[str, Array]]) -> dict[str, float]:
    """Median nanoseconds that each engine takes for one sample.

    The engines take turns, so that drift of the machine hits all alike; a turn runs every sample once. It begins with a
    pause, in which the other engine's threads stop spinning, and with a run that does not count.
    """
    times: dict[str, list[int]] = {name: [] for name in engines}
    for _ in range(_TURNS):
        for name, run in engines.items():
            time.sleep(_PAUSE_SECONDS)
            run(samples[0])
            for feeds in samples:
                start = time.perf_counter_ns()
                run(feeds)
                times[name].append(time.perf_counter_ns() - start)
    return {name: float(np.median(values)) for name, values in times.items()}
