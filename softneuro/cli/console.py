"""Where commands print: tables and results on standard output, progress and errors on standard error."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from softneuro.tuning.tune import Progress as Standing

__all__ = ["Reporter", "console", "error_console", "milliseconds", "print_json", "print_table", "progress_bar", "remarks"]

_PIPED_WIDTH = 1000
_BAR_WIDTH, _LEAST_TEXT = 65, 12  # of the progress bar without its text, and of the text


class _Output(Console):
    """A console that falls silent when its reader goes away (``| head``): files are still written, exit codes still tell."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console() -> Console:
    """Standard output. Names from models are printed as they are; lines are as long as they need when piped."""
    out = _Output(highlight=False, markup=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = _PIPED_WIDTH
    return out


def error_console() -> Console:
    """Standard error, for what must be seen."""
    return _Output(stderr=True, highlight=False, markup=False, soft_wrap=True)


def remarks(options: argparse.Namespace) -> Console:
    """Standard error, for what may be left out: ``-q`` silences it."""
    return _Output(stderr=True, highlight=False, markup=False, soft_wrap=True, quiet=options.quiet)


def print_json(data: Any) -> None:
    """Plain data as JSON on standard output, for ``--json``; nothing else may be printed there then."""
    print(json.dumps(data, indent=1, allow_nan=False))


def print_table(out: Console, table: Table) -> None:
    """A table that fits the terminal; when piped, whole columns of plain text."""
    if not out.is_terminal:
        table.box, table.pad_edge, table.padding = None, False, (0, 2, 0, 0)
    out.print(table)


def progress_bar(options: argparse.Namespace) -> Progress:
    """A bar with the remaining time, for terminals only, and not with ``-q`` nor with ``-v``, which logs lines instead.

    It redraws only when told to: a refresh thread would disturb measurements.
    """
    out = remarks(options)
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=out, auto_refresh=False, transient=True, disable=bool(options.quiet or options.verbose or not out.is_terminal),
    )  # fmt: skip


class Reporter:
    """Draws on a bar where tuning stands: between measurements, never during one."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._stage = "import"
        self._task = bar.add_task(self._stage, total=1)

    def __call__(self, standing: Standing) -> None:
        if self._bar.disable:
            return
        if standing.stage != self._stage:  # what is done already must not count as speed
            self._stage = standing.stage
            self._bar.reset(self._task, completed=standing.done, total=standing.total)
        text = " ".join(f"{standing.stage} {standing.detail}".split())
        self._bar.update(self._task, description=text[: max(_LEAST_TEXT, self._bar.console.width - _BAR_WIDTH)],
                         completed=standing.done, total=standing.total)  # fmt: skip
        self._bar.refresh()


def milliseconds(ns: float | None) -> str:
    """A time for people: ``3.41 ms``, or ``-`` for None."""
    return "-" if ns is None else f"{ns / 1e6:.3f} ms"
