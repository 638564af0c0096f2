"""The profile: measured times by problem, routine, formats, schedule and machine, kept as they are made.

One JSON object a line, appended and flushed after every measurement, so that an interrupted run loses none; a torn
last line is passed over. Lines of other machines or of other versions of a routine stay in the file, unused. Of a candidate
that failed the line holds the reason, and a key that readers which know nothing of failures never ask for.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from softneuro import cpu
from softneuro.codegen import jit
from softneuro.codegen.target import Target
from softneuro.errors import ProfileError
from softneuro.limits import in_force
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.routine import Built, Routine

__all__ = ["Measurement", "Profile", "routine_digest"]

_DECLARES = re.compile(rb"^[A-Z0-9_]+ = (also_narrow\()?Routine\(", re.MULTILINE)
_RECORD_START = b'{"key": "'
_FAILED = " | failed"
_MOST_REASON = 1000
_LISTS = {"__init__", "table", "candidates"}  # modules that only list routines


@dataclass(frozen=True)
class Measurement:
    """A time: median over blocks of each block's minimum, in nanoseconds, and the spread of the block minima
    ((largest - smallest) / median)."""

    ns: float
    spread: float = 0.0


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """The file's lines, never more than one in memory. Raises ResourceLimitError for one that is too long."""
    most = in_force().line_bytes
    while line := file.readline(most + 1):
        in_force().check("line_bytes", len(line), f"profile {str(path)!r}: a line has at least")
        yield line


def _parsed(line: bytes) -> tuple[str, str, Measurement | str]:
    """Key, machine, and measurement or reason of a failure of a line. Raises one of several errors for anything else."""
    record = json.loads(line)
    key, machine, ns, spread = (record[name] for name in ("key", "machine", "ns", "spread"))
    if not (isinstance(key, str) and isinstance(machine, str) and _is_amount(ns) and _is_amount(spread)):
        raise ValueError("found values of another kind, needed two texts and two finite numbers of 0 or more")
    reason = record.get("failed")
    if isinstance(reason, str):
        return key.removesuffix(_FAILED), machine, reason
    return key, machine, Measurement(float(ns), float(spread))


def _is_amount(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


@cache
def _module_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _shared_digest(folder: Path) -> str:
    """Digest of the modules among the routines that declare none and serve several."""
    paths = [path for path in sorted(folder.glob("*.py")) if path.stem not in _LISTS]
    sources = [path.read_bytes() for path in paths]
    return hashlib.sha256(b"".join(s for s in sources if not _DECLARES.search(s))).hexdigest()


def routine_digest(routine: Routine, built: Built) -> str:
    """Digest of the sources that decide what was measured: the routine's module, those that routines share, and the
    kernels' (16 hex digits)."""
    modules = list(_modules(routine.build))
    kernels = [jit.source_digest(launch.kernel.module) for launch in built.launches]
    parts = [*map(_module_digest, modules), _shared_digest(Path(modules[0]).parent), *kernels]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def _modules(build: Any) -> Iterator[str]:
    """The modules of a function and of the routines that it was bound to."""
    while isinstance(build, partial):
        for argument in build.args:
            if isinstance(argument, Routine):
                yield from _modules(argument.build)
        build = build.func
    yield inspect.getsourcefile(build) or ""


class Profile:
    """Measurements of one target on this machine, in memory and, when a path is given, in a file (which need not exist).

    Raises ProfileError when the file exists and is no profile, or cannot be written.
    """

    def __init__(self, target: Target, path: str | Path | None = None) -> None:
        self._machine = f"{cpu.fingerprint()} {target.name}"
        self._known: dict[str, Measurement] = {}
        self._failures: dict[str, str] = {}
        self.path = Path(path) if path is not None else None
        self._file: IO[str] | None = None
        self._torn = False
        if self.path is not None and self.path.exists():
            self._load(self.path)

    def _load(self, path: Path) -> None:
        try:
            if not path.is_file():
                raise ProfileError(f"profile {str(path)!r}: cannot be read: no regular file, needed another name")
            with open(path, "rb") as file:
                for number, line in enumerate(_lines(path, file), 1):
                    self._take(f"profile {str(path)!r}, line {number}", line)
        except OSError as error:
            raise ProfileError(f"profile {str(path)!r}: cannot be read: {error.strerror}") from error

    def _take(self, where: str, line: bytes) -> None:
        """Keep what one line says, if it is of this machine; a last line that is no measurement was torn by an interruption."""
        if not line.strip():
            return
        try:
            key, machine, result = _parsed(line)
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            if not line.endswith(b"\n") and line.startswith(_RECORD_START[: len(line)]):
                self._torn = True
                return
            raise ProfileError(f"{where}: is not a measurement, needed key, machine, ns and spread: remove the line") from error
        if machine == self._machine:
            self._keep(key, result)

    def _keep(self, key: str, result: Measurement | str) -> None:
        """What was found last counts."""
        if isinstance(result, Measurement):
            self._known[key] = result
            self._failures.pop(key, None)
        else:
            self._failures[key] = result
            self._known.pop(key, None)

    @staticmethod
    def key(problem: Problem, choice: Choice, digest: str) -> str:
        """What a measurement is found by."""
        numbers = ",".join(f"{k}={v}" for k, v in sorted(choice.schedule.items()))
        return f"{problem.key()} | {choice.routine} {choice.signature} {numbers} | {digest}"

    def get(self, key: str) -> Measurement | None:
        """The measurement of a key on this machine, or None."""
        return self._known.get(key)

    def failure(self, key: str) -> str | None:
        """Why the candidate of a key could not be run or gave a wrong result on this machine; None when it did not fail."""
        return self._failures.get(key)

    def add(self, key: str, measurement: Measurement) -> None:
        """Keep a measurement, on disk before this returns to the caller."""
        self._keep(key, measurement)
        ns, spread = round(measurement.ns, 1), round(measurement.spread, 4)
        self._write({"key": key, "machine": self._machine, "ns": ns, "spread": spread})

    def fail(self, key: str, reason: str) -> None:
        """Keep why a candidate failed, likewise on disk; it counts until the code that the key names changes."""
        text = " ".join(reason.split())[:_MOST_REASON]
        self._keep(key, text)
        self._write({"key": key + _FAILED, "machine": self._machine, "ns": 0.0, "spread": 0.0, "failed": text})

    def _write(self, record: dict[str, object]) -> None:
        """Add a line to the file, if there is one. Raises ProfileError when that cannot be done."""
        if self.path is None:
            return
        try:
            if self._file is None:
                self._file = self._opened(self.path)
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise ProfileError(f"profile {str(self.path)!r}: cannot be written: {error.strerror}") from error

    def _opened(self, path: Path) -> IO[str]:
        """The file, to be added to after its last whole line: what an interruption left of another is cut off."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        if self._torn:
            os.truncate(path, content.rfind(b"\n") + 1)
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (kept open until close)
        if content[-1:] not in (b"\n", b"") and not self._torn:
            file.write("\n")
        self._torn = False
        return file

    def close(self) -> None:
        """Close the file; measurements may still be looked up."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._known)
