"""softneuro in a process of its own: see `softneuro.bench.adapter`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from softneuro.bench.adapter import Feeds, Loaded

__all__ = ["bring", "load"]


def bring() -> str:
    """Import it; gives the version."""
    import softneuro.runtime

    return softneuro.__version__


def load(model: str, threads: int, feeds: Feeds) -> Loaded:
    """Load a plan. Raises PlanError; running it raises InputError when the feeds do not fit."""
    from softneuro.runtime import Session

    session = Session(model, threads)

    def run() -> Sequence[Any]:
        return session.run(None, feeds)

    def macs() -> int:
        placed = session.linked(feeds).program.placed
        return sum(item.problem.macs() for item in placed if item.problem is not None)

    return Loaded(run, list, macs, lambda: "numba" in sys.modules)  # the runtime imports it to compile only
