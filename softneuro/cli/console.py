"""Where commands print: tables and results on standard output, progress and errors on standard error."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from softneuro.tuning.tune import Progress as Standing

__all__ = ["Reporter", "console", "error_console", "milliseconds", "print_json", "print_table", "progress_bar", "remarks"]

_PIPED_WIDTH = 1000


def console() -> Console:
    """Standard output. Names from models are printed as they are; lines are as long as they need when piped."""
    out = Console(highlight=False, markup=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = _PIPED_WIDTH
    return out


def error_console() -> Console:
    """Standard error, for what must be seen."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def remarks(options: argparse.Namespace) -> Console:
    """Standard error, for what may be left out: ``-q`` silences it."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True, quiet=options.quiet)


def print_json(data: Any) -> None:
    """Plain data as JSON on standard output, for ``--json``; nothing else may be printed there then."""
    print(json.dumps(data, indent=1, allow_nan=False))


def print_table(out: Console, table: Table) -> None:
    """A table that fits the terminal; when piped, whole columns of plain text."""
    if not out.is_terminal:
        table.box, table.pad_edge, table.padding = None, False, (0, 2, 0, 0)
    out.print(table)


def progress_bar(options: argparse.Namespace) -> Progress:
    """A bar with the remaining time, for terminals only, and not with ``-q``.

    It redraws only when told to: a refresh thread would disturb measurements.
    """
    out = remarks(options)
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=out, auto_refresh=False, transient=True, disable=options.quiet or not out.is_terminal,
    )  # fmt: skip


class Reporter:
    """Draws on a bar where tuning stands: between measurements, never during one."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("import", total=1)

    def __call__(self, standing: Standing) -> None:
        text = f"{standing.stage} {standing.detail}"
        self._bar.update(self._task, description=text[:60], completed=standing.done, total=standing.total)
        self._bar.refresh()


def milliseconds(ns: float | None) -> str:
    """A time for people: ``3.41 ms``, or ``-`` for None."""
    return "-" if ns is None else f"{ns / 1e6:.3f} ms"
