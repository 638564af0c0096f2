"""``softneuro profile``: a table of where the time of a plan goes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table

from softneuro.cli.arguments import add_input, add_threads, positive
from softneuro.cli.console import console, milliseconds, print_table
from softneuro.cli.inputs import feeds_for
from softneuro.report.rows import layer_rows
from softneuro.runtime.session import Session

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro profile model.plan --top 20"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "profile", help="run a plan and show the time of every layer", epilog=f"example: {EXAMPLE}"
    )
    parser.add_argument("plan", type=Path, help="the plan file")
    parser.add_argument("--repeat", type=positive, default=20, metavar="N", help="runs to take the median of (default 20)")
    parser.add_argument("--top", type=positive, metavar="N", help="only the N slowest rows")
    add_input(parser)
    add_threads(parser)
    parser.set_defaults(function=_profile)
    return parser


def _profile(options: argparse.Namespace) -> int:
    session = Session(options.plan, options.threads)
    feeds = feeds_for(session, options)
    rows = layer_rows(session, feeds, options.repeat)
    table = Table("layer", "output", "routine", "formats", "ms", "predicted", "share", "GFLOP/s")
    for row in sorted(rows, key=lambda row: -row.ns)[: options.top] if options.top else rows:
        expected = "" if row.predicted_ns is None else f"{row.predicted_ns / 1e6:.4f}"
        rate = "" if row.gflops is None else f"{row.gflops:.0f}"
        table.add_row(row.name, row.output, row.routine, row.formats, f"{row.ns / 1e6:.4f}", expected,
                      f"{100 * row.share:.1f}%", rate)  # fmt: skip
    adapts = [row for row in rows if row.name.startswith("adapt ")]
    out = console()
    print_table(out, table)
    share = f"adapts {milliseconds(sum(row.ns for row in adapts))} ({100 * sum(row.share for row in adapts):.1f}%)"
    out.print(f"total {milliseconds(sum(row.ns for row in rows))} over {len(rows)} rows, {share}, {session.threads} threads")
    return 0
