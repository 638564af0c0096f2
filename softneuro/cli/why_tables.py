"""How ``softneuro profile --why`` and ``--problem`` print what is known of a layer."""

from __future__ import annotations

from rich.console import Console

from softneuro.cli.columns import STAYS, Column, print_columns
from softneuro.cli.profile_tables import compact_formats, schedule_text
from softneuro.cli.units import unit_for
from softneuro.report.explanation import CandidateRow, Explanation

__all__ = ["print_explanation"]

_MOST_NAMES = 3
_ROUTINE_WIDTH = 46


def print_explanation(out: Console, found: Explanation) -> list[str]:
    """Candidates, the reason for the chosen one, and refusals; returns the titles of columns there was no room for."""
    names = ", ".join(found.layers[:_MOST_NAMES])
    more = len(found.layers) - _MOST_NAMES
    if names:
        out.print(f"{names}{f' and {more} more' if more > 0 else ''}", style="bold")
    if found.problem:
        out.print(found.problem)
    missing = _print_candidates(out, found)
    if found.reason:
        out.print(found.reason)
    for refused in found.refused:
        out.print(f"refused: {refused.routine}: {refused.reason}")
    return missing


def _print_candidates(out: Console, found: Explanation) -> list[str]:
    rows = found.candidates
    fastest = rows[0].ns if rows else None
    unit = unit_for(10 * (fastest or 0.0))
    columns = [
        Column("routine", [schedule_text(row.routine, row.schedule) for row in rows], STAYS),
        Column("formats", [compact_formats(row.formats) for row in rows], 4),
        Column(unit.name, [unit.number(row.ns) or "-" for row in rows], STAYS, True),
        Column("spread", ["" if not row.spread else f"{100 * row.spread:.1f}%" for row in rows], 2, True),
        Column("slower", [_slower(row, fastest) for row in rows], 5, True),
        Column("chosen", [_mark(row) for row in rows], STAYS),
        Column("note", [row.note for row in rows], 3),
    ]
    return print_columns(out, columns, styles=["bold green" if row.chosen else "" for row in rows],
                         first_width=_ROUTINE_WIDTH)


def _slower(row: CandidateRow, fastest: float | None) -> str:
    return "" if row.ns is None or not fastest else f"+{100 * (row.ns / fastest - 1):.1f}%"


def _mark(row: CandidateRow) -> str:
    return " ".join(word for word, there in (("<--", row.chosen), ("tied", row.tied)) if there)
