"""``softneuro run``: run a plan or model on files, pictures or random input, and show or write the outputs."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from softneuro.cli.arguments import add_force, add_input, add_json, add_limit, add_threads, positive
from softneuro.cli.columns import STAYS, Column, print_columns, say_missing
from softneuro.cli.console import console, milliseconds, print_json, remarks
from softneuro.cli.inputs import Feed, input_data, loaded_feeds, session_of
from softneuro.cli.output_files import planned_files, write_outputs
from softneuro.report.outputs import OutputRow, RunTimes, output_rows, run_times
from softneuro.runtime.session import Session

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro run model.plan --input input=picture.png --preprocess imagenet --output results"
_EXAMPLES = f"""examples:
  {EXAMPLE}
  softneuro run model.plan --repeat 100                          random input, and how long it takes
  softneuro run model.onnx --shape x=1x3x48x320 --input line.png
  softneuro run tokens.plan --input input_ids=ids.npy --input attention_mask=1 --output results.npz --json"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="run a plan or model and show its outputs", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run a plan (or an ONNX model, with default routines) once or several times, and show every output's\n"
                    "type, shape and range, and the five largest classes where it looks like a classifier's (no softmax is\n"
                    "applied).",
    )  # fmt: skip
    parser.add_argument("plan", type=Path, help="the plan file, or an ONNX model")
    parser.add_argument("--output", type=Path, metavar="FOLDER",
                        help="write every output there as a .npy file, or all into one file when the name ends in .npz")
    add_force(parser)
    parser.add_argument("--repeat", type=positive, default=1, metavar="N",
                        help="run N times, and show the first time and the others' median, minimum and percentiles (default 1)")
    add_threads(parser)
    add_limit(parser)
    add_json(parser)
    add_input(parser.add_argument_group("inputs"))
    parser.set_defaults(function=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    session = session_of(options.plan, options)
    feeds = loaded_feeds(session, options)
    files = planned_files(options.output, session, options.force) if options.output else None
    arrays = {name: feed.array for name, feed in feeds.items()}
    nanoseconds = []
    for _ in range(options.repeat):
        start = time.perf_counter_ns()
        outputs = session.run(arrays)
        nanoseconds.append(time.perf_counter_ns() - start)
    rows, times = output_rows(outputs), run_times(nanoseconds)
    if options.json:
        print_json(_data(options, session, feeds, rows, times))
    else:
        out = console()
        missing = _print_outputs(out, rows)
        out.print(_times_text(times, session.threads))
        say_missing(options, missing)
    if files is not None:
        for line in write_outputs(files, outputs):
            remarks(options).print(line)
    return 0


def _print_outputs(out: Console, rows: list[OutputRow]) -> list[str]:
    odd = any(row.nan or row.inf for row in rows)
    missing = print_columns(out, [
        Column("output", [row.name for row in rows], STAYS),
        Column("type", [row.dtype for row in rows], 6),
        Column("shape", ["x".join(map(str, row.shape)) or "scalar" for row in rows], 7),
        Column("least", [_bound(row.least) for row in rows], 4, number=True),
        Column("largest", [_bound(row.largest) for row in rows], 5, number=True),
        Column("NaN", [str(row.nan) if odd else "" for row in rows], 8, number=True),
        Column("inf", [str(row.inf) if odd else "" for row in rows], 8, number=True),
        Column("values", [" ".join(map(_number, row.values)) for row in rows], 3),
    ])  # fmt: skip
    for row in rows:
        for sample, best in enumerate(row.top):
            which = f"{row.name}[{sample}]" if len(row.top) > 1 else row.name
            out.print(f"{which}: largest " + ", ".join(f"{index} ({value:.4g})" for index, value in best))
    return missing


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _plain(value: Any) -> Any:
    """A number for JSON, which has none that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _times_text(times: RunTimes, threads: int) -> str:
    of = f"{threads} thread{'s' if threads > 1 else ''}"
    first = f"first run {milliseconds(times.first_ns)}"
    if times.inferences_per_second is None:
        return f"{first} on {of}"
    return (f"{first}, then {times.runs - 1} on {of}: median {milliseconds(times.median_ns)}, minimum "
            f"{milliseconds(times.minimum_ns)}, p90 {milliseconds(times.p90_ns)}, p99 {milliseconds(times.p99_ns)}, "
            f"{times.inferences_per_second:.4g} inferences/s")


def _data(options: argparse.Namespace, session: Session, feeds: Mapping[str, Feed], rows: list[OutputRow],
          times: RunTimes) -> dict[str, Any]:
    inputs = [input_data(name, feed) for name, feed in feeds.items()]
    outputs = [asdict(row) | {"top": [[{"index": i, "value": _plain(v)} for i, v in best] for best in row.top],
                              "values": [_plain(value) for value in row.values]} for row in rows]
    return {"plan": str(options.plan), "threads": session.threads, "seed": options.seed, "inputs": inputs, "outputs": outputs,
            "times": asdict(times)}
