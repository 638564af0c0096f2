"""Compile many kernels at once, on all CPUs this process may use, in processes of their own.

Numba compiles under a lock, so threads would wait for each other. The processes write into the object cache, where
`softneuro.codegen.jit` finds the kernels; a kernel that fails is left to whoever needs it, with its error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from softneuro import cpu
from softneuro.codegen.jit import is_cached
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target

__all__ = ["WORTH_A_PROCESS", "precompile"]

WORTH_A_PROCESS = 4
"""Kernels that compile in the time a process takes to start."""

Report = Callable[[int, int, str], None]


def precompile(specs: Iterable[KernelSpec], target: Target, report: Report) -> None:
    """Make sure that the kernels lie in the object cache; ``report(done, total, kernel)`` is called after each.

    When it is interrupted, the processes are ended; the kernels that are done are kept.
    """
    missing = [spec for spec in dict.fromkeys(specs) if not is_cached(spec, target)]
    queue: SimpleQueue[KernelSpec] = SimpleQueue()
    for spec in missing:
        queue.put(spec)
    finished: SimpleQueue[KernelSpec | None] = SimpleQueue()
    workers = min(cpu.allowed_cpus(), len(missing) // WORTH_A_PROCESS)
    processes: list[subprocess.Popen[str]] = []
    threads = [threading.Thread(target=_serve, args=(queue, finished, target, processes)) for _ in range(workers)]
    for thread in threads:
        thread.start()
    done, running = 0, workers
    try:
        while running:
            compiled = finished.get()
            if compiled is None:
                running -= 1
            else:
                done += 1
                report(done, len(missing), str(compiled))
    finally:
        _empty(queue)
        for process in processes:
            process.terminate()  # they wait for work, unless this was interrupted
        for thread in threads:
            thread.join()


def _empty(queue: SimpleQueue[KernelSpec]) -> None:
    with contextlib.suppress(Empty):
        while True:
            queue.get_nowait()


def _serve(queue: SimpleQueue[KernelSpec], finished: SimpleQueue[KernelSpec | None], target: Target,
           processes: list[subprocess.Popen[str]]) -> None:
    """Feed one worker process until the queue is empty or the process is gone."""
    command = [sys.executable, "-m", "softneuro.codegen.worker"]
    try:
        # in a process group of its own, so that Ctrl-C in a terminal reaches only this process, which ends it in order
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0) as process:
            processes.append(process)
            assert process.stdin is not None and process.stdout is not None
            while True:
                spec = queue.get_nowait()
                process.stdin.write(json.dumps(_request(spec, target)) + "\n")
                process.stdin.flush()
                if not process.stdout.readline():
                    break
                finished.put(spec)
    except (Empty, OSError):
        pass
    finally:
        finished.put(None)


def _request(spec: KernelSpec, target: Target) -> dict[str, object]:
    return {"module": spec.module, "literals": spec.literals, "target": dataclasses.asdict(target)}
