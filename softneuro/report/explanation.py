"""Why a layer runs with the routine it has: every candidate with its time, and every refusal with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CandidateRow", "Explanation", "Refused"]


@dataclass(frozen=True)
class CandidateRow:
    """One candidate: nanoseconds (None where it was not timed; note says why), relative spread of the measurement.

    chosen: it is what the layer runs with. tied: its time cannot be told from the fastest one's.
    """

    routine: str
    formats: str
    schedule: Mapping[str, int]
    ns: float | None
    spread: float = 0.0
    note: str = ""
    chosen: bool = False
    tied: bool = False


@dataclass(frozen=True)
class Refused:
    """A routine of the op that cannot compute the problem, with its reason."""

    routine: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """All that is known of one problem. layers: the names of the layers that have it; candidates: the fastest first,
    those without a time last."""

    problem: str
    layers: tuple[str, ...] = ()
    candidates: tuple[CandidateRow, ...] = field(default_factory=tuple)
    refused: tuple[Refused, ...] = field(default_factory=tuple)
