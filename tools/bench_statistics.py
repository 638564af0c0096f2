"""What a benchmark's times amount to, and the tables that show it. No clock here."""
from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

OURS = "softneuro"
NOISY = 0.15


@dataclass(frozen=True)
class Result:
    """One engine on one model.

    rounds: nanoseconds of every run, by round. macs: multiply-adds of one run. peak_gflops: the machine's measured
    peak for these threads. import_ns, load_ns, first_ns, peak_bytes: of the engine's process.
    """

    model: str
    threads: int
    engine: str
    version: str
    rounds: Sequence[Sequence[int]]
    macs: int = 0
    peak_gflops: float = 0.0
    import_ns: int = 0
    load_ns: int = 0
    first_ns: int = 0
    peak_bytes: int = 0
    median_ns: float = field(init=False)
    minimum_ns: float = field(init=False)
    p90_ns: float = field(init=False)
    spread: float = field(init=False)

    def __post_init__(self) -> None:
        times = [time for times in self.rounds for time in times]
        medians = [statistics.median(times) for times in self.rounds]
        object.__setattr__(self, "median_ns", statistics.median(times))
        object.__setattr__(self, "minimum_ns", min(times))
        object.__setattr__(self, "p90_ns", percentile(times, 0.9))
        object.__setattr__(self, "spread", (max(medians) - min(medians)) / statistics.median(medians))

    @property
    def share_of_peak(self) -> float | None:
        """Arithmetic done per time at the median, as a part of the peak; None when either is not known."""
        return 2 * self.macs / self.median_ns / self.peak_gflops if self.macs and self.peak_gflops else None


def percentile(times: Sequence[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of the times do not exceed, between neighbours linear."""
    ordered = sorted(times)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def ratios(results: Iterable[Result]) -> tuple[float, float] | None:
    """How many times longer the best peer takes than we do, by medians and by minima; None without both sides."""
    ours = [r for r in results if r.engine == OURS]
    peers = [r for r in results if r.engine != OURS]
    if not ours or not peers:
        return None
    return (min(p.median_ns for p in peers) / ours[0].median_ns, min(p.minimum_ns for p in peers) / ours[0].minimum_ns)


def warnings(results: Iterable[Result]) -> list[str]:
    """A sentence for every result whose rounds differ too much to tell engines apart."""
    return [
        f"{r.model}, {r.threads} threads, {r.engine}: medians of rounds spread over {100 * r.spread:.0f} %, "
        f"needed at most {100 * NOISY:.0f} %: the machine is too noisy to tell"
        for r in results if r.spread > NOISY
    ]  # fmt: skip


def grouped(results: Iterable[Result]) -> Mapping[tuple[str, int], list[Result]]:
    """The results of each model and number of threads."""
    groups: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.model, result.threads), []).append(result)
    return groups


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, padded so that it also reads as plain text; all columns but the first to the right."""
    cells = [list(head), *map(list, rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    cells.insert(1, ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)])
    lines = ([c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))] for row in cells)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


HEAD = ("model", "threads", "engine", "median ms", "minimum ms", "p90 ms", "peer/ours median", "peer/ours minimum",
        "of peak", "load ms", "first ms", "peak MB", "spread")  # fmt: skip


def speed_table(results: Sequence[Result]) -> str:
    """Every engine on every model; ratios stand in our rows, above 1 where we are faster than the best peer."""
    rows = []
    for group in grouped(results).values():
        found = ratios(group)
        for r in group:
            compared = [f"{ratio:.2f}" for ratio in found] if found and r.engine == OURS else ["", ""]
            share = r.share_of_peak
            times = [f"{ns / 1e6:.3f}" for ns in (r.median_ns, r.minimum_ns, r.p90_ns)]
            rows.append([r.model, str(r.threads), r.engine, *times, *compared,
                         f"{100 * share:.0f} %" if share is not None else "", f"{r.load_ns / 1e6:.1f}",
                         f"{r.first_ns / 1e6:.1f}", f"{r.peak_bytes / 1e6:.0f}", f"{100 * r.spread:.0f} %"])  # fmt: skip
    return markdown(HEAD, rows)


def as_json(results: Sequence[Result]) -> list[dict[str, object]]:
    """The results as plain data, with the ratios of each group in our entries."""
    entries = []
    for group in grouped(results).values():
        found = ratios(group)
        for r in group:
            entry: dict[str, object] = dataclasses.asdict(r) | {"share_of_peak": r.share_of_peak}
            if found and r.engine == OURS:
                entry |= {"peer_over_ours_median": found[0], "peer_over_ours_minimum": found[1]}
            entries.append(entry)
    return entries
