"""``softneuro demo``: tune a small model that comes with the package, and show what tuning does."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from softneuro.cli.amounts import counted
from softneuro.cli.arguments import add_threads
from softneuro.cli.columns import STAYS, Column, print_columns
from softneuro.cli.console import Reporter, console, milliseconds, progress_bar
from softneuro.cli.plan_text import gain
from softneuro.cli.profile_tables import schedule_text
from softneuro.cli.units import unit_for
from softneuro.compare import differences, onnxruntime_session, times_in_turns
from softneuro.demo.data import INPUT, OUTPUT, load_pictures, model_path
from softneuro.errors import InputError, NotInstalled
from softneuro.report.rows import is_free, layer_rows
from softneuro.runtime.session import Session
from softneuro.tuning.tune import tune
from softneuro.types import Array

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro demo"
NEXT = "softneuro tune model.onnx -o model.plan, and softneuro run model.plan"
_TOLERANCE = 1e-4
_PROFILED_RUNS = 200
_BUSY = 2.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="tune a small model that comes with the package, and show what was gained",
        description="Tune a small CNN that tells ten kinds of clothes apart (Fashion-MNIST), and show what was gained. "
                    "Takes less than a minute and leaves no file but compiled kernels in the cache folder.",
        epilog=f"example: {EXAMPLE} --threads 1",
    )  # fmt: skip
    add_threads(parser)
    parser.set_defaults(function=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    out = console()
    pictures, labels = load_pictures()
    samples = [{INPUT: picture} for picture in np.split(pictures, len(pictures))]
    out.print("tuning a CNN that tells ten kinds of clothes apart (Fashion-MNIST); this takes less than a minute")
    start = time.perf_counter()
    with progress_bar(options) as bar:
        plan = tune(model_path(), threads=options.threads, progress=Reporter(bar))
    made = plan.provenance
    out.print(f"tuned in {time.perf_counter() - start:.0f} s: {counted(made.threads, 'thread')}, {made.target}, {made.machine}")
    session = Session(plan, options.threads)
    logits = np.concatenate([session.run(sample)[OUTPUT] for sample in samples])
    out.print()
    _print_layers(out, session, samples[0])
    out.print()
    right = int((logits.argmax(1) == labels).sum())
    out.print(f"accuracy     {right} of {len(labels)} pictures right ({100 * right / len(labels):.1f}%)")
    out.print(f"search       {gain(made) or 'nothing was measured'}")
    if made.measured_ns and made.predicted_ns and made.measured_ns > _BUSY * made.predicted_ns:
        out.print("             (far more than predicted: other programs seem to use these CPUs)")
    code = _print_comparison(out, session, samples, logits)
    out.print(f"\nnext: {NEXT}")
    return code


def _print_layers(out: Console, session: Session, sample: Mapping[str, Array]) -> None:
    rows = [row for row in layer_rows(session, sample, _PROFILED_RUNS) if not is_free(row)]
    unit = unit_for(sum(row.ns for row in rows))
    print_columns(out, [
        Column("layer", [row.name for row in rows], STAYS),
        Column("op", [row.op for row in rows], 2),
        Column("shapes", [row.shapes for row in rows], 3),
        Column("routine", [schedule_text(row.routine, row.schedule) for row in rows], 6),
        Column(unit.name, [unit.number(row.ns) for row in rows], STAYS, True),
        Column("share", [f"{100 * row.share:.1f}%" for row in rows], 8, True),
    ])  # fmt: skip


def _print_comparison(out: Console, session: Session, samples: Sequence[Mapping[str, Array]], logits: Array) -> int:
    """Time per picture here and with onnxruntime, and how far its answers are; 1 when they are too far, else 0."""
    engines = {"softneuro": lambda sample: session.run(None, sample)}
    try:
        peer = onnxruntime_session(model_path(), samples[0], session.threads)
    except (InputError, NotInstalled) as error:
        out.print(f"softneuro    {milliseconds(times_in_turns(engines, samples)['softneuro'])} per picture")
        out.print(f"onnxruntime  not compared: {error}")
        return 0
    engines["onnxruntime"] = lambda sample: peer.run(None, sample)
    times = times_in_turns(engines, samples)
    ours, theirs = times["softneuro"], times["onnxruntime"]
    there = np.concatenate([peer.run(None, sample)[0] for sample in samples])
    (apart,) = differences({OUTPUT: logits}, {OUTPUT: there})
    right = apart.within(_TOLERANCE)
    out.print(f"softneuro    {milliseconds(ours)} per picture")
    out.print(f"onnxruntime  {milliseconds(theirs)} per picture on as many threads ({theirs / ours:.2f}x), "
              f"largest difference {apart.absolute:.2g} of {apart.scale:.3g}{'' if right else ': too much'}")  # fmt: skip
    return 0 if right else 1
