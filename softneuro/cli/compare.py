"""``softneuro compare``: hold a plan's tensors against onnxruntime's, another plan's or the numpy reference's."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from softneuro.cli.amounts import finite
from softneuro.cli.arguments import add_input, add_json, add_limit, add_threads, tolerance
from softneuro.cli.columns import STAYS, Column, print_columns, say_missing
from softneuro.cli.console import console, print_json, remarks
from softneuro.cli.inputs import Feed, input_data, loaded_feeds, session_of
from softneuro.cli.sources import model_of, plan_of
from softneuro.cli.spelling import did_you_mean
from softneuro.compare import (
    Difference,
    LayerDifference,
    Tensors,
    compare_layers,
    differences,
    first_departure,
    tensors_of_graph,
    tensors_of_model,
    tensors_of_onnxruntime,
    tensors_of_session,
)
from softneuro.errors import InputError
from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro compare model.plan --against onnxruntime --layers"
_EXAMPLES = f"""examples:
  {EXAMPLE}
  softneuro compare model.plan --against other.plan --input x=picture.png --tolerance 1e-3
  softneuro compare model.onnx --against reference

exit codes: 0 all outputs are within the tolerance, 1 an output is not, 3 bad input, 4 onnxruntime is not installed"""
_ENGINES = ("onnxruntime", "reference")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare", help="compare a plan's outputs with onnxruntime's or another plan's", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run a plan (or an ONNX model, with default routines) and another engine on the same inputs, and show how\n"
                    "far their outputs are apart. An output passes when its largest difference, in units of its largest\n"
                    "value, is within the tolerance and, where it looks like a classifier's, the five largest classes are\n"
                    "the same.",
    )  # fmt: skip
    parser.add_argument("plan", type=Path, help="the plan file, or an ONNX model")
    parser.add_argument("--against", default="onnxruntime", metavar="ENGINE",
                        help="onnxruntime (default), the path of another plan or model, or reference: numpy, layer by layer as "
                             "the model has them, slow")
    parser.add_argument("--model", type=Path, help="the ONNX model that onnxruntime or the reference runs (default: the one that "
                        "was tuned, when it is beside the plan or in this folder)")  # fmt: skip
    parser.add_argument("--layers", action="store_true",
                        help="compare also the tensors inside, in the order they are made, and name the first that departs; only "
                             "outputs decide the exit code, as a tensor inside may be the small difference of large ones")
    parser.add_argument("--tolerance", type=tolerance, default=1e-4, metavar="T",
                        help="largest difference allowed, relative to the tensor's largest value (default 1e-4)")
    add_threads(parser)
    add_limit(parser)
    add_json(parser)
    add_input(parser.add_argument_group("inputs"))
    parser.set_defaults(function=_compare)
    return parser


def _compare(options: argparse.Namespace) -> int:
    session = session_of(options.plan, options)
    feeds = loaded_feeds(session, options)
    arrays = {name: feed.array for name, feed in feeds.items()}
    there = _other_side(options, session, arrays)
    rows = differences(session.run(arrays), there.outputs())
    layers = list(compare_layers(session, arrays, there)) if options.layers else []
    if options.json:
        print_json(_data(options, session, feeds, rows, layers))
    else:
        out = console()
        missing = _print_layers(out, layers, options.tolerance, _passes(rows, options.tolerance)) if options.layers else []
        missing += _print_outputs(out, rows, options)
        say_missing(options, list(dict.fromkeys(missing)))
    return 0 if _passes(rows, options.tolerance) else 1


def _passes(rows: Sequence[Difference], allowed: float) -> bool:
    return all(row.within(allowed) for row in rows)


def _other_side(options: argparse.Namespace, session: Session, feeds: Mapping[str, Array]) -> Tensors:
    """The engine of --against. Raises InputError when it needs a model that is not found, or is none."""
    if options.against == "onnxruntime":
        return tensors_of_onnxruntime(model_of(options.plan, session.plan, options.model), feeds, session.threads)
    if options.against == "reference":
        try:
            model = model_of(options.plan, session.plan, options.model)
        except InputError as error:
            remarks(options).print(f"{error}: taking the plan's own layers, so what its passes changed is not looked at")
            return tensors_of_graph(session.plan.graph, feeds)
        return tensors_of_model(model, feeds)
    path = Path(options.against)
    if not path.exists():
        raise InputError(f"--against {options.against}: is no file{did_you_mean(options.against, _ENGINES)}, needed "
                         f"{' or '.join(_ENGINES)}, or a plan or model")
    return tensors_of_session(Session(plan_of(path, options), options.threads), feeds)


def _print_outputs(out: Console, rows: Sequence[Difference], options: argparse.Namespace) -> list[str]:
    odd = any((row.nan_here, row.nan_there, row.inf_here, row.inf_there) != (0, 0, 0, 0) for row in rows)
    right = [row.within(options.tolerance) for row in rows]
    top = {None: "", True: "equal", False: "differ"}
    missing = print_columns(out, [
        Column("output", [row.name for row in rows], STAYS),
        Column("type", [row.type_here for row in rows], 2),
        Column("|difference|", [f"{row.absolute:.3g}" for row in rows], 4, number=True),
        Column("largest", [f"{row.scale:.3g}" for row in rows], 3, number=True),
        Column("relative", [f"{row.relative:.3g}" for row in rows], 8, number=True),
        Column("worst at", [_worst(row) for row in rows], 1),
        Column("NaN here/there", [f"{row.nan_here}/{row.nan_there}" if odd else "" for row in rows], 6, number=True),
        Column("inf here/there", [f"{row.inf_here}/{row.inf_there}" if odd else "" for row in rows], 5, number=True),
        Column("top-5", [top[row.top5_equal] for row in rows], 7),
        Column("verdict", ["right" if passed else "differs" for passed in right], STAYS),
    ], styles=["" if passed else "red" for passed in right])  # fmt: skip
    for row in rows:
        if row.note:
            out.print(f"{row.name}: {row.note}")
    needed = max((row.needed for row in rows), default=0.0)
    passing = "no tolerance passes" if math.isinf(needed) else f"smallest tolerance that passes: {needed:.3g}"
    out.print(f"{passing} (given {options.tolerance:.3g}), against {options.against}")
    return missing


def _worst(row: Difference) -> str:
    """The element that is furthest off, with its values here and there."""
    if row.worst is None:
        return ""
    return f"[{', '.join(map(str, row.worst))}] {row.value_here:.6g} / {row.value_there:.6g}"


def _print_layers(out: Console, rows: Sequence[LayerDifference], allowed: float, evened_out: bool) -> list[str]:
    first = first_departure(rows, allowed)
    compared = [(row, row.difference) for row in rows if row.difference is not None]
    right = [found.within(allowed) for _, found in compared]
    verdicts = ["right" if passed else "departs <-- first" if row is first else "departs"
                for (row, _), passed in zip(compared, right, strict=True)]
    missing = print_columns(out, [
        Column("layer", [row.layer for row, _ in compared], STAYS),
        Column("op", [row.op for row, _ in compared], 3),
        Column("routine", [row.routine for row, _ in compared], 2),
        Column("tensor", [found.name for _, found in compared], 1),
        Column("|difference|", [f"{found.absolute:.3g}" for _, found in compared], 4, number=True),
        Column("relative", [f"{found.relative:.3g}" for _, found in compared], STAYS, number=True),
        Column("verdict", verdicts, STAYS),
    ], styles=["" if passed else "red" for passed in right]) if compared else []  # fmt: skip
    others = len(rows) - len(compared)
    out.print(f"{len(compared)} of {len(rows)} tensors compared"
              + (", the others have no counterpart of their name there" if others else ""))
    out.print(_first_text(first, allowed))
    if first is not None and evened_out:
        out.print("the outputs are right all the same: a tensor inside may be the small difference of large ones")
    out.print()
    return missing


def _first_text(first: LayerDifference | None, allowed: float) -> str:
    if first is None or first.difference is None:
        return f"no layer departs by more than {allowed:.3g}"
    found = first.difference
    what = found.note or f"{found.relative:.3g} of its largest value, worst at {_worst(found)} (here / there)"
    return f"first departure: layer {first.layer!r} ({first.op}, {first.routine}), tensor {found.name!r}: {what}"


def _data(options: argparse.Namespace, session: Session, feeds: Mapping[str, Feed], rows: Sequence[Difference],
          layers: Sequence[LayerDifference]) -> dict[str, Any]:
    first = first_departure(layers, options.tolerance)
    data = {
        "plan": str(options.plan), "against": options.against, "tolerance": options.tolerance, "threads": session.threads,
        "seed": options.seed,
        "inputs": [input_data(name, feed) for name, feed in feeds.items()],
        "outputs": [_row_data(row, options.tolerance) for row in rows],
        "smallest_tolerance": finite(max((row.needed for row in rows), default=0.0)),
        "right": _passes(rows, options.tolerance),
    }  # fmt: skip
    if options.layers:
        data["layers"] = [_layer_data(row, options.tolerance) for row in layers]
        data["first_departure"] = None if first is None else _layer_data(first, options.tolerance)
    return data


def _layer_data(row: LayerDifference, allowed: float) -> dict[str, Any]:
    compared = None if row.difference is None else _row_data(row.difference, allowed)
    return {"layer": row.layer, "op": row.op, "routine": row.routine, "tensor": row.tensor, "difference": compared}


def _row_data(row: Difference, allowed: float) -> dict[str, Any]:
    """The numbers of a comparison; null for those that are infinite or NaN."""
    return {
        "name": row.name, "type_here": row.type_here, "type_there": row.type_there, "absolute": finite(row.absolute),
        "relative": finite(row.relative), "largest_there": row.scale, "worst": None if row.worst is None else list(row.worst),
        "value_here": finite(row.value_here), "value_there": finite(row.value_there), "nan_here": row.nan_here,
        "nan_there": row.nan_there, "inf_here": row.inf_here, "inf_there": row.inf_there, "top5_equal": row.top5_equal,
        "smallest_tolerance": finite(row.needed), "note": row.note, "right": row.within(allowed),
    }  # fmt: skip
