"""``softneuro profile``: a table of where the time of a plan goes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table

from softneuro.cli.arguments import add_input, add_threads, inputs_for, load_inputs, positive
from softneuro.cli.console import console, milliseconds, print_table
from softneuro.runtime.session import Session

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro profile model.plan --top 20"


def add_parser(commands: Any) -> None:
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


def _profile(options: argparse.Namespace) -> int:
    session = Session(options.plan, options.threads)
    feeds = inputs_for(session, load_inputs(options.input, session), dict(options.shape), options.seed)
    times = dict(session.profile(feeds, options.repeat))
    placed = session.linked({name: array.shape for name, array in feeds.items()}).program.placed
    total = sum(times.values()) or 1.0
    rows = sorted(placed, key=lambda p: -times[p.name])[: options.top] if options.top else placed
    predicted = session.plan.provenance.layer_ns
    table = Table("layer", "output", "routine", "formats", "ms", "predicted", "share", "GFLOP/s")
    for item in rows:
        ns = times[item.name]
        shape = str(item.problem.outputs[0]) if item.problem else "?"
        rate = f"{2 * item.problem.macs() / ns:.0f}" if item.problem and item.problem.macs() and ns else ""
        expected = f"{predicted[item.name] / 1e6:.4f}" if item.name in predicted else ""
        numbers = ",".join(f"{k}{v}" for k, v in item.choice.schedule.items())
        table.add_row(item.name, shape, f"{item.choice.routine} {numbers}".strip(), str(item.choice.signature),
                      f"{ns / 1e6:.4f}", expected, f"{100 * ns / total:.1f}%", rate)
    adapts = sum(ns for name, ns in times.items() if name.startswith("adapt "))
    out = console()
    print_table(out, table)
    share = f"adapts {milliseconds(adapts)} ({100 * adapts / total:.1f}%)"
    out.print(f"total {milliseconds(total)} over {len(placed)} rows, {share}, {session.threads} threads")
    return 0
