"""The parent's side of bench_worker: start an engine, give it turns, end it."""
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_WORKER = Path(__file__).resolve().parent / "bench_worker.py"


class EngineFailed(RuntimeError):
    """The engine's process ended without an answer; its own message is on standard error."""


class Engine:
    """A process that holds one engine with one model. `greeting` tells version, times and memory of the start."""

    def __init__(self, name: str, model: Path, threads: int, feeds: Path) -> None:
        self.name = name
        self.greeting: dict[str, Any] = {}
        self.rounds: list[list[int]] = []
        self.peak_bytes = 0
        self._process = subprocess.Popen([sys.executable, str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        job = {"engine": name, "model": str(model), "threads": threads, "feeds": str(feeds)}
        try:
            self.greeting = self._ask(job)
        except BaseException:
            self.close()
            raise
        self.peak_bytes = self.greeting["peak_bytes"]

    def turn(self, seconds: float) -> list[int]:
        """Let it run for so long; gives the nanoseconds of each run."""
        answer = self._ask({"run": seconds})
        self.peak_bytes = answer["peak_bytes"]
        times: list[int] = answer["times"]
        return times

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineFailed(f"{self.name} ended without an answer (exit code {self._process.wait()})")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process and wait for it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
