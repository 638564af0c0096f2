"""One engine with one model in a process of its own: ``python -m softneuro.bench.worker``, driven by `softneuro.bench.process`.

Standard input holds one JSON object a line, standard output one answer a line. The first line is the job:
{"adapter" (a module, see `softneuro.bench.adapter`), "model", "threads", "names" (of the inputs), "feeds" (a .npz file of
them in that order), "outputs" (a .npz file to write), "limits" (of `softneuro.limits`, which our own engine heeds)},
answered with the version, the nanoseconds of import, load and first run, the multiply-adds, whether it compiled, and the
peak memory so far. Then {"run": seconds} is answered with the
nanoseconds of each run. What goes wrong is answered with {"error"}. The end of input ends the process at once, whatever it
is doing: so it never outlives its parent.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from softneuro.bench.adapter import Adapter
from softneuro.errors import SoftneuroError

__all__ = ["main", "times_for"]

_Questions = queue.SimpleQueue[dict[str, Any]]


def main() -> int:
    """Answer until the input ends."""
    answers = _own_output()
    questions = _questions()
    try:
        greeting, run = _started(questions.get())
        _answer(answers, greeting)
        while True:
            times = times_for(run, questions.get()["run"], time.perf_counter_ns)
            _answer(answers, {"times": times, "peak_bytes": peak_bytes()})
    except Exception as error:  # engines raise types of their own
        _answer(answers, {"error": str(error) if isinstance(error, SoftneuroError) else f"{type(error).__name__}: {error}"})
        return 1


def _own_output() -> TextIO:
    """Standard output for the answers alone: what an engine prints goes to standard error, from native code too."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _questions() -> _Questions:
    """The questions as they come; a thread waits for them, asleep while a run is timed.

    It takes no lock of ``sys.stdin``, which a process that an engine forks would wait for.
    """
    questions: _Questions = queue.SimpleQueue()

    def read() -> None:
        text = b""
        while chunk := os.read(0, 1 << 16):
            *lines, text = (text + chunk).split(b"\n")
            for line in lines:
                questions.put(json.loads(line))
        _end()

    threading.Thread(target=read, name="questions", daemon=True).start()
    return questions


def _end() -> None:
    """End at once, with all processes that the engine started when this process leads their group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _answer(answers: TextIO, answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), file=answers, flush=True)


def _started(job: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Import, load and run once; gives what to answer, and what to run."""
    adapter = cast(Adapter, importlib.import_module(job["adapter"]))
    version, import_ns = _timed(adapter.bring)
    import numpy as np

    from softneuro.limits import ResourceLimits, enforced

    with np.load(job["feeds"]) as file:
        feeds = dict(zip(job["names"], (file[key] for key in file.files), strict=True))
    with enforced(ResourceLimits(**job["limits"])):
        loaded, load_ns = _timed(lambda: adapter.load(job["model"], job["threads"], feeds))
    result, first_ns = _timed(loaded.run)
    peak = peak_bytes()
    arrays = map(np.asarray, loaded.outputs(result))
    np.savez(job["outputs"], *(array.astype(str) if array.dtype.hasobject else array for array in arrays))
    greeting = {"version": version, "import_ns": import_ns, "load_ns": load_ns, "first_ns": first_ns,
                "macs": loaded.macs(), "compiled": loaded.compiled(), "peak_bytes": peak}  # fmt: skip
    return greeting, loaded.run


def _timed(action: Callable[[], Any]) -> tuple[Any, int]:
    """What the action gives, and its nanoseconds."""
    start = time.perf_counter_ns()
    result = action()
    return result, time.perf_counter_ns() - start


def times_for(run: Callable[[], Any], seconds: float, clock: Callable[[], int]) -> list[int]:
    """Nanoseconds of each run until the time is up, at least one; a first run that warms up does not count."""
    run()
    times: list[int] = []
    now = clock()
    end = now + int(seconds * 1e9)
    while not times or now < end:
        start = clock()
        run()
        now = clock()
        times.append(now - start)
    return times


def peak_bytes() -> int:
    """The most memory this program had: Linux counts that of the parent into ru_maxrss, so its own mark goes first."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


if __name__ == "__main__":
    sys.exit(main())
