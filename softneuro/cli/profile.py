"""``softneuro profile``: where the time of a plan goes, and why each layer runs with what it has."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softneuro.cli.arguments import add_force, add_input, add_json, add_limit, add_threads, positive, writable
from softneuro.cli.columns import say_missing
from softneuro.cli.console import console, print_json, remarks
from softneuro.cli.inputs import feeds_for, session_of
from softneuro.cli.profile_tables import print_groups, print_rows, print_summary, shown_rows
from softneuro.cli.why import known_to, layers_explained, print_explanations, problem_answered
from softneuro.report.explanation import explanations
from softneuro.report.page import html_page
from softneuro.report.plot import check_plot, plot_rows
from softneuro.report.profiled import Profiled, profiled
from softneuro.report.trace import chrome_trace
from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro profile model.plan --top 20"
_EXAMPLES = f"""examples:
  {EXAMPLE}
  softneuro profile model.onnx --by op
  softneuro profile model.plan --why '/layer1/*'
  softneuro profile --problem "conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)) f32[1,64,56,56] *f32[64,64,3,3] \
-> f32[1,64,56,56] @1"
  softneuro profile model.plan --plot layers.svg --trace run.json --html report.html"""
_DESCRIPTION = """Run a plan and show where its time goes: the median time of every layer and of every adapt (a
conversion between the formats of two layers), its share of the total, what tuning had measured, and the part of this
machine's measured float32 peak that it reaches. A multiply-add counts as two operations, however the routine computes
it: Winograd convolutions get by with fewer, so they may exceed 100%. Layers that the host computes in numpy have a
routine that ends in .reference. Views of memory that is there take no time and are not listed. With a model in place of
a plan, every layer runs with its default routine."""
_TRACED_RUNS = 3
_PLOTTED = 25
_BUSY = 1.5


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "profile", help="run a plan and show the time of every layer, or why a layer runs with what it has",
        description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("plan", type=Path, nargs="?", metavar="plan|model", help="a plan file, or an ONNX model")
    add_input(parser)
    add_threads(parser)
    add_limit(parser)
    add_json(parser)
    add_force(parser)
    table = parser.add_argument_group("table")
    table.add_argument("--repeat", type=positive, metavar="N", help="runs to take the median of (default: a second's, 5 to 500)")
    table.add_argument("--top", type=positive, metavar="N", help="only the N slowest rows, the slowest first")
    table.add_argument("--sort", choices=("time", "order"), help="rows by time or as they run (default: order, with --top time)")
    table.add_argument("--by", choices=("op", "routine"), help="sums for each op or routine in place of the layers")
    why = parser.add_argument_group("why a layer runs with what it has, in place of the table")
    why.add_argument("--why", metavar="LAYER",
                     help="list the candidates of a layer or adapt (a name, or a pattern with * and ?) with their times, the "
                          "chosen one marked <--, those as fast as the fastest within the spread of the measurements marked "
                          "tied, and what was refused and why")  # fmt: skip
    why.add_argument("--problem", metavar="TEXT",
                     help="likewise for one problem, as --why and --json write it; needs no plan")  # fmt: skip
    why.add_argument("--profile", type=Path, metavar="FILE", help="take times from a file that tune --profile made")
    why.add_argument("--no-measure", action="store_true", help="leave out times that are not known (default: measure them now)")
    files = parser.add_argument_group("files, beside the table")
    files.add_argument("--plot", type=Path, metavar="FILE",
                       help=f"a bar chart of the {_PLOTTED} slowest rows, or of --top N: .png, .svg or .pdf (needs "
                            "matplotlib)")  # fmt: skip
    files.add_argument("--trace", type=Path, metavar="FILE",
                       help=f"a trace of {_TRACED_RUNS} real runs, a track for each thread, for ui.perfetto.dev or "
                            "chrome://tracing")  # fmt: skip
    files.add_argument("--html", type=Path, metavar="FILE",
                       help="a report in one file: graph, candidates, table and timeline")  # fmt: skip
    parser.set_defaults(function=_profile, usage_error=parser.error)
    return parser


def _profile(options: argparse.Namespace) -> int:
    if (options.plan is None) == (options.problem is None):
        options.usage_error("needed a plan or model, or --problem" if options.plan is None else "found both a plan and --problem")
    files = [path for path in (options.plot, options.trace, options.html) if path is not None]
    if files and (options.why, options.problem) != (None, None):
        options.usage_error("found --why or --problem with a file of the table: needed one of them")
    if options.problem is not None:
        return print_explanations(options, [problem_answered(options)])
    for path in files:
        writable(path, options.force)
    if options.plot is not None:
        check_plot(options.plot)
    session = session_of(options.plan, options)
    if options.why is not None:
        return print_explanations(options, layers_explained(options, session))
    feeds = feeds_for(session, options)
    found = profiled(session, feeds, options.repeat)
    _print_profile(options, session, found)
    _write_files(options, session, feeds, found)
    return 0


def _print_profile(options: argparse.Namespace, session: Session, found: Profiled) -> None:
    if options.json:
        print_json({"plan": str(options.plan), **found.data()})
    else:
        out = console()
        rows = shown_rows(found, options.top, (options.sort or ("time" if options.top else "order")) == "time")
        missing = print_groups(out, found, options.by) if options.by else print_rows(out, found, rows)
        print_summary(out, found)
        say_missing(options, missing)
    _remark(options, session, found)


def _remark(options: argparse.Namespace, session: Session, found: Profiled) -> None:
    """What to bear in mind when reading the times."""
    out, made = remarks(options), session.plan.provenance
    if found.whole.is_noisy:
        out.print(f"noisy: the medians of equal runs differ by {100 * found.whole.spread:.0f}%, so other programs seem to use "
                  "the CPUs; small differences between layers mean nothing")  # fmt: skip
    if found.predicted_ns is not None and found.predicted_ns > _BUSY * found.total_ns:
        out.print("tuning measured far more than these runs take: other programs seem to have used the CPUs then; tuning again "
                  "may find a faster plan")  # fmt: skip
    if made.threads != session.threads:
        out.print(f"the plan was tuned for {made.threads} thread{'s' if made.threads > 1 else ''}: predictions are left out")


def _write_files(options: argparse.Namespace, session: Session, feeds: Mapping[str, Array], found: Profiled) -> None:
    if options.plot is not None:
        plot_rows(found, shown_rows(found, options.top or _PLOTTED, options.sort != "order"), options.plot)
    if options.trace is not None:
        options.trace.write_text(json.dumps(chrome_trace(session, feeds, _TRACED_RUNS)), encoding="utf-8")
    if options.html is not None:
        known = known_to(options, session)
        page = html_page(session, feeds, found.rows, explanations(session, feeds, known), session.trace(feeds, _TRACED_RUNS))
        options.html.write_text(page, encoding="utf-8")
    for path in (options.plot, options.trace, options.html):
        if path is not None:
            remarks(options).print(f"written: {path}")
