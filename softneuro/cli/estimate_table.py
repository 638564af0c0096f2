"""What a tuning would measure, as a table: ``softneuro tune --dry-run``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable

from softneuro.cli.columns import STAYS, Column, print_columns, say_missing
from softneuro.cli.console import console, print_json
from softneuro.tuning.estimate import Estimate, OpEstimate

__all__ = ["print_estimate"]

_LONG_SECONDS = 120


def print_estimate(found: Estimate, options: argparse.Namespace) -> None:
    """Print an estimate as a table and a sentence, or as JSON."""
    if options.json:
        sums = {"compile_seconds": found.compile_seconds, "measure_seconds": found.measure_seconds, "seconds": found.seconds}
        print_json(dataclasses.asdict(found) | sums)
        return
    out = console()
    if not found.ops:
        out.print("nothing would be measured: every layer gets its default routine")
        return
    rows = found.ops

    def counts(title: str, count: Callable[[OpEstimate], int], worth: int) -> Column:
        numbers = [count(row) for row in rows]
        return Column(title, [*map(str, numbers), str(sum(numbers))], worth, number=True)

    seconds = [row.compile_seconds + row.measure_seconds for row in rows]
    missing = print_columns(out, [
        Column("op", [*(row.op for row in rows), "all"], STAYS),
        counts("layers", lambda row: row.layers, 3),
        counts("problems", lambda row: row.problems, 2),
        counts("candidates", lambda row: row.candidates, 6),
        counts("known", lambda row: row.known, 4),
        counts("to compile", lambda row: row.kernels, 5),
        Column("seconds", [f"{value:.1f}" for value in (*seconds, sum(seconds))], STAYS, number=True),
    ], sections=(len(rows) - 1,))  # fmt: skip
    parts = (f"compiling {found.compile_seconds:.0f} s", f"measuring {found.measure_seconds:.0f} s",
             f"the rest {found.prepare_seconds + found.check_seconds:.0f} s")  # fmt: skip
    out.print(f"tuning should take about {_duration(found.seconds)} ({', '.join(parts)}); nothing was measured or written")
    say_missing(options, missing)


def _duration(found: float) -> str:
    return f"{found:.0f} s" if found < _LONG_SECONDS else f"{found / 60:.0f} min"
