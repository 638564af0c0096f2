"""What the times of a benchmark amount to. No clock here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["DIFFERENT", "NOISY", "OURS", "Result", "Standing", "by_case", "percentile", "schedule", "standing", "warnings"]

OURS = "softneuro"
NOISY = 0.15
"""Rounds whose medians are further apart than this, relatively, cannot tell engines apart."""
DIFFERENT = 1e-2
"""Outputs that are further apart than this, relative to the largest value, are those of another computation."""
_TURN_SECONDS = 0.3
_RUNS_A_TURN = 3
_FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Result:
    """One engine on one model, one after another inference, with a number of threads and samples (batch) in each.

    rounds: nanoseconds of every run, by round. macs: multiply-adds of one run, 0 if unknown. peak_gflops: the machine's
    measured peak for these threads, 0 if unknown. import_ns, load_ns, first_ns, peak_bytes: of the engine's process.
    difference: the largest between its outputs and ours, relative to the output's largest value; None for ours.
    """

    model: str
    engine: str
    version: str
    threads: int
    batch: int
    rounds: Sequence[Sequence[int]]
    macs: int = 0
    peak_gflops: float = 0.0
    import_ns: int = 0
    load_ns: int = 0
    first_ns: int = 0
    peak_bytes: int = 0
    difference: float | None = None

    @cached_property
    def times(self) -> Sequence[int]:
        """Nanoseconds of all runs, in order of size."""
        return sorted(time for times in self.rounds for time in times)

    @cached_property
    def round_medians(self) -> Sequence[float]:
        """Median nanoseconds of each round, in the order they ran."""
        return [statistics.median(times) for times in self.rounds]

    @property
    def median_ns(self) -> float:
        return self.percentile(0.5)

    @property
    def minimum_ns(self) -> int:
        return self.times[0]

    @property
    def mean_ns(self) -> float:
        return statistics.fmean(self.times)

    def percentile(self, part: float) -> float:
        """The nanoseconds that ``part`` (0 to 1) of the runs do not exceed."""
        return percentile(self.times, part)

    @property
    def inferences_per_second(self) -> float:
        """Runs in the time they took together."""
        return 1e9 / self.mean_ns

    @property
    def samples_per_second(self) -> float:
        return self.batch * self.inferences_per_second

    @property
    def spread(self) -> float:
        """How far the rounds' medians are apart, relative to their median."""
        medians = self.round_medians
        return (max(medians) - min(medians)) / statistics.median(medians)

    @property
    def noisy(self) -> bool:
        """Whether the rounds differ too much to tell engines apart."""
        return self.spread > NOISY

    @property
    def share_of_peak(self) -> float | None:
        """Arithmetic done per time at the median, as a part of the peak; None when either is not known."""
        return 2 * self.macs / self.median_ns / self.peak_gflops if self.macs and self.peak_gflops else None


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of the ordered values do not exceed, between neighbours linear."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def schedule(seconds: float, slowest_ns: float) -> tuple[int, float]:
    """Turns for each engine, and the seconds of a turn, that make up ``seconds`` when its inference takes so long.

    A turn is a third of a second, or three inferences where that is longer; never fewer than three turns, so that their
    spread tells of noise.
    """
    turn = max(_TURN_SECONDS, _RUNS_A_TURN * slowest_ns / 1e9)
    rounds = max(_FEWEST_ROUNDS, round(seconds / turn))
    return rounds, seconds / rounds


@dataclass(frozen=True)
class Standing:
    """How many times longer the best peer takes than we do: the peer of the least median, and of the least minimum.

    noisy: our times or that peer's differ too much between rounds.
    """

    peer: str
    median: float
    minimum: float
    noisy: bool


def standing(results: Iterable[Result]) -> Standing | None:
    """Where we stand among the engines of one case; None without both sides."""
    ours = next((r for r in results if r.engine == OURS), None)
    peers = [r for r in results if r.engine != OURS]
    if ours is None or not peers:
        return None
    best = min(peers, key=lambda peer: peer.median_ns)
    least = min(peer.minimum_ns for peer in peers)
    return Standing(best.engine, best.median_ns / ours.median_ns, least / ours.minimum_ns, ours.noisy or best.noisy)


def by_case(results: Iterable[Result]) -> Mapping[tuple[str, int, int], list[Result]]:
    """The results of each model, number of threads and batch."""
    groups: dict[tuple[str, int, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.model, result.threads, result.batch), []).append(result)
    return groups


def warnings(results: Iterable[Result]) -> list[str]:
    """A sentence for what is not to be trusted: a case whose rounds differ too much, an engine whose outputs do."""
    sentences = []
    for (model, threads, batch), group in by_case(results).items():
        case = f"{model}, threads {threads}, batch {batch}"
        noisy = ", ".join(f"{100 * r.spread:.0f} % ({r.engine})" for r in group if r.noisy)
        if noisy:
            sentences.append(f"{case}: the machine is too noisy to tell engines apart: the medians of turns spread over {noisy}, "
                             f"needed at most {100 * NOISY:.0f} %: stop other programs or give more --seconds")
        sentences += [f"{case}: outputs of {r.engine} differ from ours {_gap(r.difference)}: see softneuro compare"
                      for r in group if r.difference is not None and not r.difference <= DIFFERENT]  # fmt: skip
    return sentences


def _gap(difference: float) -> str:
    return f"by {difference:.2g} of the largest value" if math.isfinite(difference) else "in number, shape, type or places of NaN"
