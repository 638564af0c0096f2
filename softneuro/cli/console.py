"""Where commands print: tables and results on standard output, progress and errors on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

__all__ = ["console", "error_console", "milliseconds", "progress_bar"]


def console() -> Console:
    """Standard output; plain text when it is piped."""
    return Console(highlight=False, soft_wrap=True)


def error_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def progress_bar() -> Progress:
    """A bar with the remaining time, which redraws only when told to: a refresh thread would disturb measurements."""
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=error_console(), auto_refresh=False, transient=True,
    )


def milliseconds(ns: float | None) -> str:
    """A time for people: ``3.41 ms``, or ``-`` for None."""
    return "-" if ns is None else f"{ns / 1e6:.3f} ms"
