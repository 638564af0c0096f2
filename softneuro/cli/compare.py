"""``softneuro compare``: hold a plan's outputs against onnxruntime's or another plan's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from softneuro.cli.arguments import add_input, add_threads
from softneuro.cli.console import console, print_table
from softneuro.cli.inputs import feeds_for
from softneuro.compare import Difference, differences, run_onnxruntime
from softneuro.runtime.session import Session

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro compare model.plan --model model.onnx --against onnxruntime"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare", help="compare a plan's outputs with onnxruntime's or another plan's", epilog=f"example: {EXAMPLE}"
    )
    parser.add_argument("plan", type=Path, help="the plan file")
    parser.add_argument("--against", default="onnxruntime", metavar="ENGINE", help="onnxruntime, or the path of another plan")
    parser.add_argument("--model", type=Path, help="the ONNX model that onnxruntime runs")
    parser.add_argument("--tolerance", type=float, default=1e-4,
                        help="largest difference allowed, relative to the output's largest value (default 1e-4)")
    add_input(parser)
    add_threads(parser)
    parser.set_defaults(function=_compare)
    return parser


def _compare(options: argparse.Namespace) -> int:
    session = Session(options.plan, options.threads)
    feeds = feeds_for(session, options)
    found = session.run(feeds)
    if options.against == "onnxruntime":
        expected = run_onnxruntime(options.model, feeds, session)
    else:
        expected = Session(Path(options.against), options.threads).run(feeds)
    rows = differences(found, expected)
    _print(rows, options)
    return 0 if all(row.within(options.tolerance) for row in rows) else 1


def _print(rows: list[Difference], options: argparse.Namespace) -> None:
    table = Table("output", "max |difference|", "max |output|", "relative", "NaN here/there", "top-5", "verdict")
    for row in rows:
        top = "-" if row.top5_equal is None else "equal" if row.top5_equal else "differ"
        verdict = Text("right") if row.within(options.tolerance) else Text("differs", style="red")
        numbers = [f"{value:.3g}" for value in (row.absolute, row.scale, row.relative)]
        table.add_row(row.name, *numbers, f"{row.nan_here}/{row.nan_there}", top, verdict)
    out = console()
    print_table(out, table)
    needed = max((row.relative for row in rows), default=0.0)
    out.print(f"smallest tolerance that passes: {needed:.3g} (given {options.tolerance:.3g}), against {options.against}")
