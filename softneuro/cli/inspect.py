"""``softneuro inspect``: what a model or a plan is, and where two plans differ."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from softneuro.cli.amounts import bytes_text, count_text, counted, share_text
from softneuro.cli.arguments import add_json, add_limit, add_threads, shape
from softneuro.cli.columns import STAYS, Column, print_columns, say_missing
from softneuro.cli.console import console, milliseconds, print_json, print_table, remarks
from softneuro.cli.plan_text import gain
from softneuro.cli.sources import is_plan
from softneuro.errors import InputError
from softneuro.plan.plan import Choice, Plan, Provenance
from softneuro.report.inspection import InspectedTensor, Inspection, inspect_model, inspect_plan, op_count, routine_count
from softneuro.report.plan_difference import PlanDifference, plan_difference

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro inspect model.onnx"
_EPILOG = f"""examples:
  {EXAMPLE}
  softneuro inspect detector.onnx --shape x=1x3x640x640 --layers
  softneuro inspect model.plan
  softneuro inspect new.plan --against old.plan

exit codes: 0 shown (with --against: the plans run the same), 1 they do not, 3 a file cannot be read.
Other times, versions or commands alone are shown but are no difference."""
_MOST_LISTED = 10


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "inspect", help="show what a model or a plan is made of, or where two plans differ",
        description="Show what a model or a plan is made of: inputs, outputs, parameters, arithmetic, memory, and which "
                    "of its layers run with native routines on this machine. Nothing is measured and nothing compiled. "
                    "A model that cannot be tuned is shown as far as it goes, with every operator that is not supported.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", type=Path, metavar="MODEL|PLAN", help="an ONNX model, or a plan file")
    parser.add_argument("--against", type=Path, metavar="PLAN", help="another plan, to show where they differ")
    parser.add_argument("--layers", action="store_true", help="list every layer (default: sums by op and by routine)")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224",
                        help="sizes of an input, several allowed (default: as tuned or declared, free dimensions 1)")
    add_threads(parser)
    add_limit(parser)
    add_json(parser)
    parser.set_defaults(function=_inspect)
    return parser


def _inspect(options: argparse.Namespace) -> int:
    if options.against is not None:
        return _compare(options)
    if is_plan(options.file):
        found = inspect_plan(options.file, Plan.load(options.file), dict(options.shape), options.threads)
    else:
        found = inspect_model(options.file, dict(options.shape), options.threads)
    if options.json:
        print_json(_data(found))
        return 0
    for note in found.notes:
        remarks(options).print(f"{options.file}: {note}")
    out = console()
    _print_facts(out, found)
    if found.provenance is not None:
        _print_provenance(out, found.provenance)
    _print_obstacles(out, found)
    if found.layers and options.layers:
        _print_layers(out, found, options)
    elif found.layers:
        _print_sums(out, found, options)
    return 0


def _data(found: Inspection) -> dict[str, Any]:
    """The inspection as plain data. Candidates that tuning measured are left to ``softneuro profile --why``."""
    data = dataclasses.asdict(found)
    made = data["provenance"]
    if made is not None:
        made["measured_problems"] = len(made.pop("measured"))
        made.pop("layer_ns")
    data["parameters"] = {dtype: {"count": a.count, "bytes": a.nbytes} for dtype, a in found.parameters.items()}
    data["flops"] = None if found.macs is None else 2 * found.macs
    data["ops"] = [dataclasses.asdict(row) for row in op_count(found.layers)]
    data["routines"] = [dataclasses.asdict(row) for row in routine_count(found.layers)]
    return data


def _tensor(tensor: InspectedTensor) -> str:
    if not tensor.dtype:
        return f"{tensor.name}  known when it runs"
    sizes = ",".join("?" if d is None else str(d) for d in tensor.declared or ())
    declared = " of any rank" if tensor.declared is None else f"[{sizes}]"
    used = f", here {'x'.join(map(str, tensor.shape)) or 'a scalar'}" if tensor.shape not in (None, tensor.declared) else ""
    return f"{tensor.name}  {tensor.dtype}{declared}{used}"


def _print_facts(out: Console, found: Inspection) -> None:
    kind = "a plan" if found.kind == "plan" else "an ONNX model"
    out.print(f"{found.file}: {kind}, {bytes_text(found.file_bytes)}, graph {found.name!r}")
    for label, tensors in (("inputs", found.inputs), ("outputs", found.outputs)):
        for number, tensor in enumerate(tensors):
            out.print(f"{label if not number else '':<12} {_tensor(tensor)}")
    if found.decides:
        texts = [name if value is None else f"{name} (shown for {value})" for name, value in found.decides.items()]
        out.print(f"{'decides':<12} {', '.join(texts)}: a branch or a size follows from the value, and a session makes a program "
                  "for each")  # fmt: skip
    if found.kind == "model":
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in found.opsets.items())
        out.print(f"{'made by':<12} {found.producer or 'unknown'}, ONNX IR {found.ir_version}, operator sets {opsets or 'none'}")
    total, nbytes = sum(a.count for a in found.parameters.values()), sum(a.nbytes for a in found.parameters.values())
    kinds = ", ".join(f"{dtype} {amount.count:,}" for dtype, amount in sorted(found.parameters.items()))
    out.print(f"{'parameters':<12} {total:,} in {bytes_text(nbytes)}{f' ({kinds})' if len(found.parameters) > 1 else ''}")
    if found.macs:
        amount = count_text(2 * found.macs)
        flops = f"{amount}{'' if amount[-1].isalpha() else ' '}FLOP ({count_text(found.macs)} multiply-adds, each counted as two)"
        out.print(f"{'arithmetic':<12} {flops}")
    if found.arena_bytes is not None:
        what = "" if found.kind == "plan" else " with default routines"
        out.print(f"{'activations':<12} {bytes_text(found.arena_bytes)} for each inference at a time{what}, "
                  "besides inputs and outputs")  # fmt: skip
    if found.operators:
        ranked = sorted(found.operators.items(), key=lambda item: (-item[1], item[0]))
        out.print(f"{'nodes':<12} {sum(found.operators.values())}: {', '.join(f'{name} {count}' for name, count in ranked)}")


def _print_provenance(out: Console, made: Provenance) -> None:
    sets = [", ".join(f"{name}={'x'.join(map(str, sizes))}" for name, sizes in shapes.items())
            for shapes in (made.shapes, *made.further_shapes)]  # fmt: skip
    packages = ", ".join(f"{name} {version}" for name, version in made.packages.items())
    rows = {
        "tuned": f"{made.model or 'a model in memory'} (SHA-256 {made.model_sha256[:16] or 'unknown'})",
        "for": f"{made.machine or 'unknown machine'}, {made.target}, {counted(made.threads, 'thread')}",
        "shapes": "; ".join(sets),
        "values": "; ".join(", ".join(f"{name}={value}" for name, value in values.items())
                            for values in (made.values, *made.further_values) if values),
        "ranges": "; ".join(f"{name}={text}" for asked in made.ranges for name, text in asked.items()),
        "with": f"softneuro {made.version}" + (f" ({packages})" if packages else ""),
        "command": made.command,
        "found": gain(made) or "nothing was measured: default routines",
    }
    for label, text in rows.items():
        if text:
            out.print(f"{label:<12} {text}")


def _print_obstacles(out: Console, found: Inspection) -> None:
    if found.problem:
        out.print(f"\nThis model cannot be tuned as it is: {found.problem}")
        if any("free dimensions" in note for note in found.notes):
            out.print("It may fit other sizes of its inputs: see --shape.")
    if found.refused:
        names = sorted({row.operator for row in found.refused})
        out.print(f"\nThis model cannot be tuned: {counted(len(found.refused), 'node')} cannot run ({', '.join(names)})")
        table = Table("layer", "operator", "reason")
        for row in found.refused:
            table.add_row(row.layer, row.operator, row.reason)
        print_table(out, table)


def _print_sums(out: Console, found: Inspection, options: argparse.Namespace) -> None:
    out.print()
    rows, macs = op_count(found.layers), found.macs or 0
    missing = print_columns(out, [
        Column("op", [row.op for row in rows], STAYS),
        Column("layers", [str(row.layers) for row in rows], STAYS, True),
        Column("native", [str(row.native or "") for row in rows], 5, True),
        Column("host", [str(row.host or "") for row in rows], STAYS, True),
        Column("multiply-adds", [count_text(row.macs) if row.macs else "" for row in rows], 2, True),
        Column("share", [share_text(row.macs, macs) if row.macs else "" for row in rows], 4, True),
        Column("parameters", [f"{row.parameters:,}" if row.parameters else "" for row in rows], 3, True),
    ])  # fmt: skip
    say_missing(options, missing)
    layers = [layer for layer in found.layers if not layer.adapt]
    adapts = counted(len(found.layers) - len(layers), "adapt")
    out.print(f"{counted(len(layers), 'layer')} and {adapts} (changes of format), {found.target}, "
              f"{counted(found.threads, 'thread')}")  # fmt: skip
    if found.kind == "plan":
        _print_routines(out, found)
    host = [layer for layer in layers if not layer.native]
    if host:
        out.print(f"\nwithout a native routine, on the host's reference in numpy ({counted(len(host), 'layer')}):")
        for layer in host if options.verbose else host[:_MOST_LISTED]:
            out.print(f"  {layer.name} ({layer.op}): {'; '.join(layer.reasons)}")
        if len(host) > _MOST_LISTED and not options.verbose:
            out.print(f"  and {len(host) - _MOST_LISTED} more (-v lists all)")


def _print_routines(out: Console, found: Inspection) -> None:
    rows = routine_count(found.layers)
    total = sum(row.predicted_ns or 0.0 for row in rows)
    table = Table("routine")
    for head in ("layers", "predicted", "share"):
        table.add_column(head, justify="right")
    for row in rows:
        share = "-" if row.predicted_ns is None else share_text(row.predicted_ns, total)
        table.add_row(row.routine, str(row.layers), milliseconds(row.predicted_ns), share)
    out.print()
    print_table(out, table)


def _print_layers(out: Console, found: Inspection, options: argparse.Namespace) -> None:
    layers = found.layers
    timed = any(layer.predicted_ns is not None for layer in layers)
    schedules = [",".join(f"{key}{value}" for key, value in layer.schedule.items()) for layer in layers]
    out.print()
    missing = print_columns(out, [
        Column("layer", [layer.name for layer in layers], STAYS),
        Column("op", [layer.op for layer in layers], 6),
        Column("inputs", [" ".join(layer.inputs) for layer in layers], 1),
        Column("outputs", [" ".join(layer.outputs) for layer in layers], 5),
        Column("parameters", [f"{layer.parameters:,}" if layer.parameters else "" for layer in layers], 3, True),
        Column("multiply-adds", [f"{layer.macs:,}" if layer.macs else "" for layer in layers], 4, True),
        Column("routine", [layer.routine for layer in layers], STAYS),
        Column("schedule", schedules, 3),
        Column("formats", [layer.formats for layer in layers], 2),
        Column("predicted", [milliseconds(layer.predicted_ns) if timed else "" for layer in layers], 7, True),
    ])  # fmt: skip
    say_missing(options, missing)


def _compare(options: argparse.Namespace) -> int:
    for path in (options.file, options.against):
        if not is_plan(path):
            raise InputError(f"{path}: is not a plan, needed two plans for --against (softneuro tune makes one)")
    found = plan_difference(Plan.load(options.file), Plan.load(options.against))
    if options.json:
        print_json({"here": str(options.file), "there": str(options.against), "differ": found.differ, **_difference_data(found)})
    else:
        _print_difference(console(), found, options)
    return 1 if found.differ else 0


def _difference_data(found: PlanDifference) -> dict[str, Any]:
    return {
        "fields": [dataclasses.asdict(row) for row in found.fields],
        "layers": [
            {"name": row.name, "here": _choice(row.here), "there": _choice(row.there), "here_op": row.here_op,
             "there_op": row.there_op, "here_ns": row.here_ns, "there_ns": row.there_ns} for row in found.layers
        ],
        "same_layers": found.same, "here_ns": found.here_ns, "there_ns": found.there_ns,
    }  # fmt: skip


def _choice(choice: Choice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {"routine": choice.routine, "formats": str(choice.signature), "schedule": dict(choice.schedule)}


def _print_difference(out: Console, found: PlanDifference, options: argparse.Namespace) -> None:
    here, there = options.file.name, options.against.name
    if here == there:
        here, there = str(options.file), str(options.against)
    if found.fields:
        table = Table("", here, there)
        for row in found.fields:
            table.add_row(row.name, _value(row.name, row.here), _value(row.name, row.there))
        print_table(out, table)
        out.print()
    if found.layers:
        table = Table("layer", here, there)
        for head in ("ms", "ms"):
            table.add_column(head, justify="right")
        for layer in found.layers:
            ops = (layer.here_op, layer.there_op) if layer.here and layer.there and layer.here_op != layer.there_op else ("", "")
            cells = ["-" if choice is None else f"{choice} {op}".strip()
                     for choice, op in zip((layer.here, layer.there), ops, strict=True)]  # fmt: skip
            times = ["-" if ns is None else f"{ns / 1e6:.4f}" for ns in (layer.here_ns, layer.there_ns)]
            table.add_row(layer.name, *cells, *times)
        print_table(out, table)
    out.print(f"{len(found.layers)} layers and adapts differ, {found.same} are the same; "
              f"predicted {milliseconds(found.here_ns)} and {milliseconds(found.there_ns)}")  # fmt: skip
    out.print("the plans differ" if found.differ else "the plans run the same")


def _value(name: str, value: Any) -> str:
    if name.endswith("_ns"):
        return milliseconds(value)
    if name == "model_sha256":
        return str(value)[:16] or "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_sizes(item)}" for key, item in value.items()) or "-"
    if isinstance(value, tuple):
        return "; ".join(_value("", item) for item in value) or "-"
    return str(value) or "-"


def _sizes(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
