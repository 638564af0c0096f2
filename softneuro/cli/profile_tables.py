"""The tables of ``softneuro profile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from softneuro.cli.columns import STAYS, Column, print_columns
from softneuro.cli.units import unit_for
from softneuro.report.profiled import Profiled
from softneuro.report.rows import ADAPT, HOST, Group, LayerRow, grouped, is_free

__all__ = ["compact_formats", "print_groups", "print_rows", "print_summary", "schedule_text", "shown_rows"]

_STYLES = {ADAPT: "yellow", HOST: "magenta"}
_NAMES = {"layer": "layer", "adapt": "adapt", "host": "host layer"}


def shown_rows(found: Profiled, top: int | None, by_time: bool) -> list[LayerRow]:
    """The rows that take time, the slowest ``top`` of them, in order of time or as they run."""
    rows = [row for row in found.rows if not is_free(row)]
    slowest = sorted(rows, key=lambda row: -row.ns)[:top]
    if by_time:
        return slowest
    chosen = {row.name for row in slowest}
    return [row for row in rows if row.name in chosen]


def print_rows(out: Console, found: Profiled, rows: Sequence[LayerRow]) -> list[str]:
    """The table of layers with subtotals; returns the titles of columns there was no room for."""
    sums, unit = _sums(found, rows), unit_for(found.total_ns)
    blank = [""] * len(sums)
    texts = [schedule_text(row.routine, row.schedule) for row in rows]
    columns = [
        Column("layer", [row.name for row in rows] + [group.name for group in sums], STAYS),
        Column("op", [row.op for row in rows] + blank, 2),
        Column("shapes", [row.shapes for row in rows] + blank, 3),
        Column("routine", texts + blank, 6),
        Column("formats", [compact_formats(row.formats) for row in rows] + blank, 1),
        Column(unit.name, [unit.number(row.ns) for row in rows] + [unit.number(group.ns) for group in sums], STAYS, True),
        Column("share", [_percent(row.share) for row in rows] + [_percent(group.share) for group in sums], 8, True),
        Column("predicted", [unit.number(row.predicted_ns) for row in rows] + [unit.number(group.predicted_ns) for group in sums],
               5, True),
        Column("GFLOP/s", [_whole(row.gflops) for row in rows] + blank, 4, True),
        Column("of peak", [_percent(row.peak_share(found.peak_gflops), 0) for row in rows] + blank, 7, True),
    ]
    return print_columns(out, columns, sections=(len(rows) - 1,), styles=[_STYLES.get(row.kind, "") for row in rows])


def print_groups(out: Console, found: Profiled, by: str) -> list[str]:
    """The rows taken together by op or by routine, the slowest group first."""
    groups = grouped([row for row in found.rows if not is_free(row)], lambda row: row.family if by == "op" else row.routine)
    unit = unit_for(found.total_ns)
    columns = [
        Column(by, [group.name for group in groups], STAYS),
        Column("rows", [str(group.count) for group in groups], 7, True),
        Column(unit.name, [unit.number(group.ns) for group in groups], STAYS, True),
        Column("share", [_percent(group.share) for group in groups], 8, True),
        Column("predicted", [unit.number(group.predicted_ns) for group in groups], 5, True),
    ]
    return print_columns(out, columns)


def print_summary(out: Console, found: Profiled) -> None:
    """The total, and what it can be judged by."""
    whole, text, free = found.whole, unit_for(found.total_ns).text, sum(1 for row in found.rows if is_free(row))
    hidden = f", {free} more take no time" if free else ""
    predicted = "" if found.predicted_ns is None else f", predicted by tuning {text(found.predicted_ns)}"
    out.print(f"total {text(found.total_ns)} over {len(found.rows) - free} rows{hidden}{predicted}")
    out.print(f"whole runs, untimed inside: median {text(whole.median_ns)}, minimum {text(whole.minimum_ns)} "
              f"of {whole.runs}; {found.threads} thread{'s' if found.threads > 1 else ''}, peak {found.peak_gflops:.0f} GFLOP/s"
              f" ({found.target})")  # fmt: skip


def compact_formats(text: str) -> str:
    """A signature's text for people: equal formats once, and no marks for inputs that are packed or absent."""
    inputs, _, outputs = text.partition(">")
    read = list(dict.fromkeys(part for part in inputs.split(",") if part not in ("-", "")))
    made = list(dict.fromkeys(part for part in outputs.split(",") if part))
    return ",".join(made) if read == made or not read else f"{','.join(read)}>{','.join(made)}"


def schedule_text(routine: str, schedule: Mapping[str, int]) -> str:
    """A routine with its numbers: ``conv.igemm.f32.chl mr=14,nv=2``."""
    return f"{routine} {','.join(f'{key}={value}' for key, value in schedule.items())}".strip()


def _sums(found: Profiled, rows: Sequence[LayerRow]) -> list[Group]:
    """What is summed up under the rows: those not shown, then each kind."""
    names = {row.name for row in rows}
    rest = [row for row in found.rows if row.name not in names and not is_free(row)]
    hidden = grouped(rest, lambda row: f"({len(rest)} more)")
    kinds = [replace(group, name=f"{group.count} {_NAMES[group.name]}{'s' * (group.count > 1)}") for group in found.subtotals]
    return [*hidden, *kinds]


def _percent(share: float | None, digits: int = 1) -> str:
    return "" if share is None else f"{100 * share:.{digits}f}%"


def _whole(number: float | None) -> str:
    return "" if number is None else f"{number:.0f}"
