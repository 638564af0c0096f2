"""``softneuro tune``: make a plan and say what was gained."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from softneuro.cli.arguments import add_force, add_threads, seconds, shape, writable
from softneuro.cli.console import Reporter, console, milliseconds, progress_bar
from softneuro.cli.plan_text import gain
from softneuro.errors import InputError
from softneuro.plan.plan import Plan
from softneuro.tuning.summary import Summary, summarise
from softneuro.tuning.tune import tune

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro tune model.onnx -o model.plan --shape input=1x3x224x224 --threads 2"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tune", help="time every routine of every layer of a model and write the fastest plan",
        epilog=f"example: {EXAMPLE}",
    )
    parser.add_argument("model", type=Path, help="the ONNX model")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PLAN", help="the plan file to write")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224",
                        help="sizes of an input: needed for free dimensions, overrides declared ones (several allowed)")
    add_threads(parser)
    parser.add_argument("--dtypes", default="f32", help="data types that layers may compute in, by commas (default f32)")
    parser.add_argument("--time-limit", type=seconds, metavar="S",
                        help="seconds for measuring; 0 takes each layer's default routine (default: no limit)")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="measurements to reuse and to add to (made when absent)")
    add_force(parser)
    parser.set_defaults(function=_tune)
    return parser


def _tune(options: argparse.Namespace) -> int:
    path = writable(options.output, options.force)
    if path.exists() and options.model.exists() and path.samefile(options.model):
        raise InputError(f"{path}: is the model itself, needed another name for the plan")
    with progress_bar(options) as bar:
        plan = tune(
            options.model, shapes=dict(options.shape), threads=options.threads, dtypes=options.dtypes.split(","),
            time_limit=options.time_limit, profile=options.profile, progress=Reporter(bar),
        )
    plan.save(path)
    _print(plan, summarise(plan), path)
    return 0


def _print(plan: Plan, summary: Summary, path: Path) -> None:
    out = console()
    made = plan.provenance
    sizes = ", ".join(f"{name}={'x'.join(map(str, sizes))}" for name, sizes in made.shapes.items())
    out.print(f"{path}: {summary.layers} layers, {summary.adapts} adapts, {made.threads} threads, {made.target}, {sizes}")
    if made.measured_ns is not None:
        out.print(gain(made))
    if summary.host:
        out.print(f"{len(summary.host)} layers run on the host's reference:")
        for name, op, ns in summary.host[:10]:
            out.print(f"  {name} ({op}) {milliseconds(ns)}")
        if len(summary.host) > 10:
            out.print(f"  and {len(summary.host) - 10} more")
