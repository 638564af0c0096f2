"""Results of a benchmark as tables, sentences and plain data. No drawing here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from softneuro.bench.statistics import OURS, Result, Standing, by_case, standing

__all__ = ["CASE", "RATIOS", "START", "TIMES", "Column", "as_data", "cells", "markdown", "speed_markdown", "varying", "verdicts"]

_MEGABYTE = 1e6


@dataclass(frozen=True)
class Column:
    """A column: its head, and what stands there for a result of a case in which we stand so (None without peers)."""

    head: str
    cell: Callable[[Result, Standing | None], str]


def _milliseconds(head: str, value: Callable[[Result], float]) -> Column:
    def cell(r: Result, _: Standing | None) -> str:
        found = value(r) / 1e6
        return f"{found:.3f}" if found >= 1 else f"{found:.4f}"

    return Column(f"{head} ms", cell)


def _start_milliseconds(head: str, value: Callable[[Result], float]) -> Column:
    return Column(f"{head} ms", lambda r, _: f"{value(r) / 1e6:.1f}")


def _share(r: Result, _: Standing | None) -> str:
    return "" if r.share_of_peak is None else f"{100 * r.share_of_peak:.0f} %"


def _difference(r: Result, _: Standing | None) -> str:
    return "" if r.difference is None else f"{r.difference:.1g}"


MODEL = Column("model", lambda r, _: r.model)
ENGINE = Column("engine", lambda r, _: r.engine)
CASE = (Column("threads", lambda r, _: str(r.threads)), Column("batch", lambda r, _: str(r.batch)))
SAMPLES = Column("samples/s", lambda r, _: _rate(r.samples_per_second))
TIMES = (
    _milliseconds("median", lambda r: r.median_ns),
    _milliseconds("p90", lambda r: r.percentile(0.9)),
    _milliseconds("p99", lambda r: r.percentile(0.99)),
    _milliseconds("min", lambda r: r.minimum_ns),
    Column("runs/s", lambda r, _: _rate(r.inferences_per_second)),
    SAMPLES,
)
RATIOS = (
    Column("peer/ours median", lambda r, s: f"{s.median:.2f}" if s and r.engine == OURS else ""),
    Column("peer/ours min", lambda r, s: f"{s.minimum:.2f}" if s and r.engine == OURS else ""),
)
START = (
    _start_milliseconds("import", lambda r: r.import_ns),
    _start_milliseconds("load", lambda r: r.load_ns),
    _start_milliseconds("first", lambda r: r.first_ns),
    Column("peak MB", lambda r, _: f"{r.peak_bytes / _MEGABYTE:.0f}"),
    Column("of peak", _share),
    Column("spread", lambda r, _: f"{100 * r.spread:.0f} %"),
    Column("differs", _difference),
)


def _rate(per_second: float) -> str:
    return f"{per_second:.0f}" if per_second >= 1000 else f"{per_second:.4g}"


def varying(results: Sequence[Result], columns: Iterable[Column]) -> list[Column]:
    """Those of the columns in which not all results have the same; the rest can be said once."""
    return [column for column in columns if len({column.cell(r, None) for r in results}) > 1]


def cells(results: Sequence[Result], columns: Sequence[Column]) -> list[list[list[str]]]:
    """The rows of each case, a cell a column."""
    return [[[column.cell(r, where) for column in columns] for r in group]
            for group in by_case(results).values() for where in [standing(group)]]  # fmt: skip


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table, padded so that it also reads as plain text; the first ``left`` columns to the left."""
    lines = [list(head), *map(list, rows)]
    widths = [max(3, *(len(row[i]) for row in lines)) for i in range(len(head))]
    lines.insert(1, ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)])
    padded = ([c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))] for row in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def speed_markdown(results: Sequence[Result]) -> str:
    """Every result in one table; ratios stand in our rows, above 1 where we are faster than the best peer."""
    times = TIMES if any(r.batch != 1 for r in results) else [column for column in TIMES if column is not SAMPLES]
    columns = [MODEL, ENGINE, *CASE, *times, *RATIOS, *START]
    rows = [row for group in cells(results, columns) for row in group]
    return markdown([column.head for column in columns], rows, left=2)


def verdicts(results: Sequence[Result]) -> list[str]:
    """A sentence for each case with peers: who is faster, by how much. It names the case when there are several."""
    groups = by_case(results)
    sentences = []
    for (model, threads, batch), group in groups.items():
        where = standing(group)
        if where is not None:
            case = f"{model}, threads {threads}, batch {batch}: " if len(groups) > 1 else ""
            sentences.append(case + _verdict(where))
    return sentences


def _verdict(where: Standing) -> str:
    slower, faster, median, minimum = where.peer, OURS, where.median, where.minimum
    if where.median < 1:
        slower, faster, median, minimum = OURS, where.peer, 1 / where.median, 1 / where.minimum
    told = " (too noisy to tell)" if where.noisy else ""
    return f"{slower} takes {median:.2f} times as long as {faster} by medians, {minimum:.2f} by minima{told}"


def as_data(results: Sequence[Result]) -> list[dict[str, object]]:
    """The results as plain data, with the ratios of each case in our entries."""
    entries = []
    for group in by_case(results).values():
        where = standing(group)
        for r in group:
            entry = _entry(r)
            if where is not None and r.engine == OURS:
                entry |= {"best_peer": where.peer, "peer_over_ours_median": where.median, "peer_over_ours_minimum": where.minimum}
            entries.append(entry)
    return entries


def _entry(r: Result) -> dict[str, object]:
    finite = r.difference is not None and math.isfinite(r.difference)
    return {
        "model": r.model, "engine": r.engine, "version": r.version, "threads": r.threads, "batch": r.batch,
        "runs": len(r.times), "median_ns": r.median_ns, "p90_ns": r.percentile(0.9), "p99_ns": r.percentile(0.99),
        "minimum_ns": r.minimum_ns, "mean_ns": r.mean_ns, "inferences_per_second": r.inferences_per_second,
        "samples_per_second": r.samples_per_second, "round_median_ns": list(map(float, r.round_medians)), "spread": r.spread,
        "noisy": r.noisy, "import_ns": r.import_ns, "load_ns": r.load_ns, "first_ns": r.first_ns,
        "peak_bytes": r.peak_bytes, "macs": r.macs, "peak_gflops": r.peak_gflops, "share_of_peak": r.share_of_peak,
        "relative_difference": r.difference if finite else None, "same_shapes": None if r.difference is None else finite,
    }  # fmt: skip
