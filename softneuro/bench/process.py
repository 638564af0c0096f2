"""The parent's side of `softneuro.bench.worker`: start an engine, give it turns, end it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from softneuro.errors import SoftneuroError
from softneuro.limits import in_force
from softneuro.types import Array

__all__ = ["EngineFailed", "EngineProcess", "ending"]

_MEANING = {"SIGKILL": " (memory ran out, or somebody ended it)", "SIGILL": " (an instruction this CPU lacks)"}
_LOOK_SECONDS = 1.0
_CHUNK = 1 << 20
_COMMAND = (sys.executable, "-P", "-m", "softneuro.bench.worker")


class EngineFailed(SoftneuroError):
    """An engine cannot run the model, or its process ended; the message says which and why."""


class EngineProcess:
    """A process that holds one engine with one model.

    greeting tells version, times and memory of the start (see the worker), outputs what the first run gave. Ending the
    parent in any way ends it. Raises EngineFailed when the engine cannot load or run the model.

    adapter: the engine's module. model: what its ``prepare`` made. folder: where it may write files.
    """

    def __init__(self, name: str, adapter: str, model: Path, threads: int, feeds: Mapping[str, Array], folder: Path) -> None:
        self.name = name
        self.rounds: list[list[int]] = []
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._process = self._spawned(self._messages)
        try:
            self.greeting, self.outputs = self._started(adapter, model, threads, feeds, folder)
        except BaseException:
            self.close()
            raise
        self.peak_bytes: int = self.greeting["peak_bytes"]

    @staticmethod
    def _spawned(messages: IO[bytes]) -> subprocess.Popen[bytes]:
        """In a session of its own, so that Ctrl-C is the parent's to handle; it finds the modules that this process finds."""
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, bufsize=0,
                                start_new_session=True, env=os.environ | {"PYTHONPATH": path})  # fmt: skip

    def _started(self, adapter: str, model: Path, threads: int, feeds: Mapping[str, Array],
                 folder: Path) -> tuple[dict[str, Any], list[Array]]:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            given, made = Path(place) / "feeds.npz", Path(place) / "outputs.npz"
            np.savez(given, *(array.astype(str) if array.dtype.hasobject else array for array in feeds.values()))
            greeting = self._ask({"adapter": adapter, "model": str(model), "threads": threads, "names": list(feeds),
                                  "feeds": str(given), "outputs": str(made),
                                  "limits": dataclasses.asdict(in_force())})  # fmt: skip
            with np.load(made) as file:
                return greeting, [file[key] for key in file.files]

    def turn(self, seconds: float) -> list[int]:
        """Let it run for so long, at least once; gives the nanoseconds of each run. Raises EngineFailed."""
        answer = self._ask({"run": seconds})
        self.peak_bytes = answer["peak_bytes"]
        times: list[int] = answer["times"]
        return times

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        line = None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            line = self._line()
        if line is None:
            raise EngineFailed(f"{self.name}: {self._end()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineFailed(f"{self.name} cannot run the model: {' '.join(answer['error'].split())}")
        return answer

    def _line(self) -> bytes | None:
        """The next line; None when the process has ended, even if one that it started still holds the pipe."""
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            ended = self._process.poll() is not None
            ready, _, _ = select.select([self._process.stdout], [], [], 0.0 if ended else _LOOK_SECONDS)
            chunk = self._process.stdout.read(_CHUNK) if ready else b""
            if not chunk and (ready or ended):
                return None
            line += chunk
        return line

    def _end(self) -> str:
        """How the process ended without an answer, with the last that it said."""
        code = self._process.wait()
        self._messages.seek(0)
        said = [line.strip() for line in self._messages.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return ending(code) + (f" after it said {said[-1]!r}" if said else "")

    def close(self) -> None:
        """End the process, with all that it started, and wait for it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._messages.close()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def ending(code: int) -> str:
    """How a process ended, from its exit code: by itself or by a signal, with what that usually means."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}{_MEANING.get(name, '')}"
