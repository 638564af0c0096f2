"""An engine for tests of benchmarks: what it does is the text of its model file."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from softneuro.bench.adapter import Feeds, Loaded
from softneuro.bench.engines import Engine

VERSION = "1.2.3"


def bring() -> str:
    return VERSION


def load(model: str, threads: int, feeds: Feeds) -> Loaded:
    behaviour = Path(model).read_text()
    _AT_LOAD.get(behaviour, lambda: None)()
    runs: list[None] = []

    def run() -> None:
        runs.append(None)
        if len(runs) > 1:
            _LATER.get(behaviour, lambda: None)()

    outputs = [np.zeros(_SHAPES.get(behaviour, (1, 12)), np.float32)]
    def compiled() -> bool:
        if behaviour != "compiles":
            return False
        mark = Path(model).with_name("compiled")
        first = not mark.exists()
        mark.write_text("once" if first else "twice")
        return first

    return Loaded(run, lambda _: outputs, lambda: 1000, compiled)


def _loud() -> None:
    os.write(1, b"loud ")
    print("loud")


def _raise() -> None:
    raise ValueError("no layer\nfor that")


def _exit() -> None:
    print("first line", "out of luck", sep="\n", file=sys.stderr, flush=True)
    os._exit(7)


def _sleep() -> None:
    time.sleep(3600)


def _leave_a_child() -> None:
    """End, but for a child that holds all pipes; the last message is its number."""
    child = os.fork()
    if child == 0:
        while True:
            time.sleep(3600)
    print(child, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


_AT_LOAD: Mapping[str, Callable[[], None]] = {
    "loud": _loud, "raises": _raise, "exits": _exit, "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "leaves a child": _leave_a_child,
}  # fmt: skip
_LATER: Mapping[str, Callable[[], None]] = {
    "loud": _loud, "raises later": _raise, "crashes later": lambda: os.kill(os.getpid(), signal.SIGSEGV), "sleeps": _sleep,
}  # fmt: skip
_SHAPES = {"wrong shape": (2, 6)}


def fake(behaviour: str, *, converted: bool = False, packages: tuple[str, ...] = ()) -> Engine:
    """An engine called "fake" that behaves so."""

    def prepare(model: Path, feeds: Mapping[str, np.ndarray], folder: Path) -> Path:
        path = folder / "behaviour.txt"
        path.write_text(behaviour)
        return path

    return Engine("fake", "tests.bench_fake", packages, "bench", prepare, converted)
