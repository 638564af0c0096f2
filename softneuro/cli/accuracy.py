"""Options of ``softneuro tune`` that say what speed may cost in accuracy, and the frontier between the two."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table

from softneuro.calibration.samples import DEFAULT_SAMPLES
from softneuro.calibration.table import is_table
from softneuro.cli.arguments import add_picture_options, natural, writable
from softneuro.cli.console import console, milliseconds
from softneuro.errors import InputError
from softneuro.plan.plan import Plan, Provenance
from softneuro.report.frontier_plot import plot_frontier
from softneuro.report.plot import check_plot
from softneuro.tuning.accuracy import Accuracy
from softneuro.user_code import named_function

__all__ = ["accuracy_of", "add_accuracy_options", "loss_text", "show_frontier"]


def add_accuracy_options(group: Any) -> None:
    """Add the options to a group of the parser of ``tune``."""
    group.add_argument("--dtypes", default="f32", metavar="LIST",
                       help="data types that layers may compute in, by commas: f32 (default), bf16, f16, qint8 (8 bits, which "
                            "needs --calibration); each layer gets the one that is fastest within the budget")
    group.add_argument("--calibration", action="append", default=[], metavar="DATA",
                       help="inputs that show which numbers the tensors hold, and on which losses are measured: a folder of "
                            "pictures, a .npz file whose arrays count samples along their first axis (or a folder of them), or "
                            "module:function, which returns an iterable of samples; besides, a table of --save-calibration, "
                            "whose ranges hold in place of those of the data")
    group.add_argument("--calibration-samples", type=natural, default=DEFAULT_SAMPLES, metavar="N",
                       help=f"read at most so many samples (default {DEFAULT_SAMPLES})")
    group.add_argument("--calibration-method", choices=("min-max", "percentile", "mse", "entropy"),
                       help="how ranges are found (default: the best of them for each tensor)")
    group.add_argument("--save-calibration", type=Path, metavar="FILE", help="write the ranges, as JSON that may be edited")
    add_picture_options(group)
    group.add_argument("--max-error", type=float, metavar="E",
                       help="budget: largest relative L2 error of the outputs beside float32 (default 0.01)")
    group.add_argument("--min-agreement", type=float, metavar="P",
                       help="budget: the part of the samples that must keep their first class, such as 0.99")
    group.add_argument("--metric", metavar="MODULE:FUNCTION",
                       help="budget: a function of the outputs of all samples, a list of dicts: more is better")
    group.add_argument("--max-drop", type=float, metavar="D", help="how much less --metric may be than with float32")
    group.add_argument("--frontier", action="store_true", help="print the points between speed and accuracy that were found")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw them (.png .svg .pdf)")


def accuracy_of(options: argparse.Namespace) -> Accuracy:
    """What the options ask for. Raises InputError when they do not fit together, NotInstalled when a plot cannot be drawn."""
    tables = [text for text in options.calibration if is_table(Path(text))]
    data = [text for text in options.calibration if text not in tables]
    if len(tables) > 1 or len(data) > 1:
        raise InputError(f"--calibration: found {len(data)} sources of samples and {len(tables)} tables, needed at most one each")
    if options.dtypes == "f32":
        given = {"--calibration": options.calibration, "--frontier": options.frontier, "--plot": options.plot,
                 "--save-calibration": options.save_calibration}  # fmt: skip
        idle = [name for name, value in given.items() if value]
        if idle:
            raise InputError(f"{idle[0]}: has no meaning with float32 alone, needed --dtypes f32,bf16,qint8 or the like")
    if options.plot is not None:
        check_plot(writable(options.plot, options.force))
    if options.save_calibration is not None:
        writable(options.save_calibration, options.force)
    return Accuracy.of(
        calibration=data[0] if data else None, samples=options.calibration_samples, preprocess=options.preprocess,
        fit=options.fit, method=options.calibration_method, table=tables[0] if tables else None, save=options.save_calibration,
        error=options.max_error, agreement=options.min_agreement,
        metric=named_function(options.metric) if options.metric else None, drop=options.max_drop,
    )  # fmt: skip


def loss_text(made: Provenance) -> str:
    """What a plan of mixed data types loses, and the budget it was held to; empty for other plans."""
    return "" if made.loss is None else f"loss {made.loss:.3g} on the samples ({made.budget})"


def show_frontier(plan: Plan, options: argparse.Namespace) -> None:
    """Print and draw the frontier, as far as that was asked for."""
    made = plan.provenance
    if options.plot is not None:
        plot_frontier(made, options.plot)
    if not options.frontier or options.json:
        return
    table = Table(box=None, pad_edge=False)
    for title in ("predicted", "loss", "weights", ""):
        table.add_column(title, justify="right" if title else "left")
    for point in made.frontier:
        chosen = made.kept == "mixed" and point.ns == made.predicted_ns
        table.add_row(milliseconds(point.ns), f"{point.loss:.3g}", f"{point.nbytes / 1e6:.1f} MB", "<-- chosen" if chosen else "")
    console().print(table)
