"""What the module of an engine gives to the process that runs it.

The worker imports this before it times the engine's import, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Adapter", "Feeds", "Loaded"]

Feeds = Mapping[str, Any]
"""Input name → array, in the order of the model's inputs."""


def _unknown() -> int:
    return 0


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Loaded:
    """A model ready to run.

    run: one inference, whatever it gives. outputs: that as arrays, in the order of the model's outputs. macs: the
    multiply-adds of an inference, 0 where they are not known. compiled: whether code was compiled that the next start will
    find ready. These are asked after the first run.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], Sequence[Any]]
    macs: Callable[[], int] = _unknown
    compiled: Callable[[], bool] = _never


class Adapter(Protocol):
    """A module with these functions runs an engine. What they raise is told as the reason why it cannot run the model."""

    def bring(self) -> str:
        """Import the engine; gives its version."""

    def load(self, model: str, threads: int, feeds: Feeds) -> Loaded:
        """Load the file that the engine's `prepare` made, for inputs as these."""
