"""``softneuro tune``: make a plan and say what was gained."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from softneuro.cli.accuracy import accuracy_of, add_accuracy_options, loss_text, show_frontier
from softneuro.cli.amounts import counted
from softneuro.cli.arguments import add_force, add_json, add_limit, add_threads, number, ranged_shape, seconds, writable
from softneuro.cli.console import Reporter, console, milliseconds, print_json, progress_bar, remarks
from softneuro.cli.estimate_table import print_estimate
from softneuro.cli.plan_text import gain
from softneuro.errors import InputError
from softneuro.plan.plan import Plan
from softneuro.tuning.estimate import estimate
from softneuro.tuning.progress import Progress
from softneuro.tuning.request import DEFAULT_EFFORT, Request, sets_of, shape_sets
from softneuro.tuning.summary import Summary, made_data, summarise
from softneuro.tuning.tuner import tuned
from softneuro.tuning.unfinished import measuring_file, start_measuring
from softneuro.types import Shape

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro tune model.onnx -o model.plan --shape input=1x3x224x224 --threads 2"
_EPILOG = f"""examples:
  {EXAMPLE}
  softneuro tune model.onnx --dry-run                      what would be measured, and how long it should take
  softneuro tune model.onnx -o model.plan --profile times.jsonl
                                                           keep the measurements: the next model reuses them
  softneuro tune model.onnx -o model.plan --resume         go on after an interruption
  softneuro tune model.onnx -o model.plan --shape x=1x3x224x224 --shape x=8x3x224x224
                                                           one plan for two batch sizes: the mean of their times is least
  softneuro tune model.onnx -o model.plan --shape x=1x3x224..640x224..640
                                                           one plan for all sizes of the picture from 224 to 640
  softneuro tune voice.onnx -o voice.plan --shape input=1x576 --input sr=16000
                                                           tune the branch that runs where sr is 16000
  softneuro tune model.onnx -o model.plan --dtypes f32,bf16,qint8 --calibration photos/ --preprocess imagenet --max-error 0.02
                                                           let layers compute in fewer bits, as far as outputs stay near
  softneuro tune model.onnx -o model.plan --routine f32:chl/winograd@conv1,conv2 --routine '!direct'

routines: [!][data type][:layout][/algorithm][@layers]
  f32:chl/winograd@conv1   layer conv1 must run in f32, channels last, with Winograd's algorithm
  '*/igemm@conv1..conv5'   likewise igemm, in every layer from conv1 to conv5 that can
  '!winograd@stem*'        no layer whose name begins with stem may use Winograd's algorithm
  chl                      every layer that can run channels last must
  conv.igemm.f32.chl       a routine's full name, as softneuro profile shows it
Several that pin the same layer allow what any of them allows; what is forbidden with ! is taken away afterwards.

Ctrl-C ends it at any time: what was measured is kept, and the command that goes on is printed."""
_MOST_HOST_LAYERS = 10


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tune", help="time every routine of every layer of a model and write the fastest plan",
        description="Time every routine of every layer of an ONNX model on this machine, choose those that are\n"
                    "fastest together, and write them as a plan, which softneuro run and softneuro.Session run.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", type=Path, help="the ONNX model")
    parser.add_argument("-o", "--output", type=Path, metavar="PLAN", help="the plan file to write (needed but for --dry-run)")
    add_force(parser)
    parser.add_argument("--dry-run", action="store_true",
                        help="say what would be measured and how long it should take; measures and writes nothing")
    add_limit(parser)
    add_json(parser)
    _add_target_options(parser.add_argument_group("what to tune for"))
    add_accuracy_options(parser.add_argument_group("data types and accuracy"))
    _add_measuring_options(parser.add_argument_group("how to measure"))
    parser.set_defaults(function=partial(_tune, parser))
    return parser


def _add_target_options(group: Any) -> None:
    group.add_argument("--shape", type=ranged_shape, action="append", default=[], metavar="NAME=1x3x224x224",
                       help="sizes of an input, for models with free dimensions (1 by default) or other sizes than declared; "
                            "several for several inputs; the second one of the same input begins a second set of sizes, and so "
                            "on, and the plan is the best for all sets together; a size may be a range such as 224..640, "
                            "which its ends and its middle stand for")
    group.add_argument("--input", type=number, action="append", default=[], metavar="NAME=NUMBER",
                       help="the value of an input that decides which branch of the model runs (softneuro inspect shows "
                            "such inputs): that branch is tuned, the others run with default routines; the second one of the "
                            "same input belongs to the second set of sizes, and so on (default: what it is compared with, else "
                            "1 or 0)")
    add_threads(group)
    group.add_argument("--routine", action="append", default=[], metavar="[!]ROUTINE[@LAYERS]",
                       help="pin layers to routines or, with !, forbid routines (several allowed; see below)")


def _add_measuring_options(group: Any) -> None:
    group.add_argument("--effort", type=int, choices=range(4), default=DEFAULT_EFFORT,
                       help="0: measure nothing, every layer gets its default routine; 1: quick; 2: as usual (default); "
                            "3: thorough")
    group.add_argument("--time-limit", type=seconds, metavar="S", help="seconds for measuring; 0 is effort 0 (default: no limit)")
    group.add_argument("--profile", type=Path, metavar="FILE",
                       help="a file of measurements to reuse and to add to, made when absent (default: they are kept in "
                            "PLAN.measuring until the plan is written)")
    group.add_argument("--resume", action="store_true", help="go on with what an interrupted tuning measured for the same plan")
    group.add_argument("--error-on-miss", action="store_true",
                       help="use only what the profile has, and fail when a measurement is missing")


def _tune(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.error_on_miss and options.profile is None:
        parser.error("--error-on-miss needs --profile FILE")
    if options.dry_run:
        return _dry_run(options)
    if options.output is None:
        parser.error("needed -o PLAN, the plan file to write (or --dry-run)")
    path = writable(options.output, options.force)
    if path.exists() and options.model.exists() and path.samefile(options.model):
        raise InputError(f"{path}: is the model itself, needed another name for the plan")
    request = _request(options, options.profile)
    own = None
    if request.measures and options.profile is None:
        own = start_measuring(path, options.resume, options.force)
        request = dataclasses.replace(request, profile=own)
    if options.resume and request.profile is not None and not request.profile.exists():
        remarks(options).print(f"{request.profile}: is not there, so tuning begins at the start")
    began = time.monotonic()
    plan = _written(path, request, own, options)
    summary = summarise(plan)
    _remark_on_free_sizes(plan, options)
    _remark_on_branches(plan, options)
    if options.json:
        print_json({"plan": str(path), **made_data(plan, summary), "seconds": round(time.monotonic() - began, 3)})
    else:
        _print(plan, summary, path)
    show_frontier(plan, options)
    return 0


def _dry_run(options: argparse.Namespace) -> int:
    profile = options.profile
    if profile is None and options.resume and options.output is not None:
        profile = measuring_file(options.output)
    print_estimate(estimate(_request(options, profile)), options)
    return 0


def _request(options: argparse.Namespace, profile: Path | None) -> Request:
    return Request.of(
        options.model, shapes=shape_sets(options.shape), values=sets_of(options.input), threads=options.threads,
        dtypes=options.dtypes.split(","), routines=options.routine, effort=options.effort,
        time_limit=options.time_limit, profile=profile, error_on_miss=options.error_on_miss, accuracy=accuracy_of(options),
    )  # fmt: skip


def _command(options: argparse.Namespace, *more: str) -> str:
    """The command line as one would type it."""
    return shlex.join(["softneuro", *options.arguments, *more])


class _Watch:
    """Draws progress, and remembers how far measuring came."""

    def __init__(self, draw: Reporter) -> None:
        self._draw = draw
        self.measured: Progress | None = None

    def __call__(self, standing: Progress) -> None:
        if standing.stage == "measure":
            self.measured = standing
        self._draw(standing)


def _written(path: Path, request: Request, own: Path | None, options: argparse.Namespace) -> Plan:
    """Make the plan and write it. When that does not come to its end, what was measured is kept, and it is said how to go on.

    own: the file of measurements that is for this plan alone.
    """
    with progress_bar(options) as bar:
        watch = _Watch(Reporter(bar))
        try:
            plan = tuned(request, watch)
            plan = dataclasses.replace(plan, provenance=dataclasses.replace(plan.provenance, command=_command(options)))
            plan.save(path)
            if own is not None:
                own.unlink(missing_ok=True)
            return plan
        except KeyboardInterrupt:
            ended = _how_to_go_on(watch.measured, request.profile, own, options)
            interruption = KeyboardInterrupt(ended)
        except Exception:
            if request.profile is not None and request.profile.exists() and watch.measured is not None:
                remarks(options).print(_how_to_go_on(watch.measured, request.profile, own, options))
            raise
    raise interruption


def _how_to_go_on(measured: Progress | None, profile: Path | None, own: Path | None, options: argparse.Namespace) -> str:
    """How many candidates were measured, where that is kept, and the command that goes on."""
    if profile is None or not profile.exists():
        return f"nothing was measured yet (kernels that were compiled are kept); to begin again: {_command(options)}"
    known = f"{measured.done} of {measured.total} candidates are measured" if measured else "measurements are"
    resume = ["--resume"] if own is not None and not options.resume else []
    return f"{known} and kept in {profile}; to go on: {_command(options, *resume)}"


def _print(plan: Plan, summary: Summary, path: Path) -> None:
    out = console()
    made = plan.provenance
    sets = " and ".join(map(_sizes, (made.shapes, *made.further_shapes)))
    counts = (counted(summary.layers, "layer"), counted(summary.adapts, "adapt"), counted(made.threads, "thread"))
    out.print(f"{path}: {', '.join(counts)}, {made.target}, {sets}")
    if made.measured_ns is not None:
        out.print(gain(made))
    if made.loss is not None:
        out.print(loss_text(made))
    if summary.host:
        out.print(f"{counted(len(summary.host), 'layer')} on the host's reference:")
        for host in summary.host[:_MOST_HOST_LAYERS]:
            out.print(f"  {host.name} ({host.op}) {milliseconds(host.ns)}")
        if len(summary.host) > _MOST_HOST_LAYERS:
            out.print(f"  and {len(summary.host) - _MOST_HOST_LAYERS} more")


def _remark_on_free_sizes(plan: Plan, options: argparse.Namespace) -> None:
    """Say which inputs were tuned at size 1 only because nobody said otherwise."""
    given = {name for name, _ in options.shape}
    for name, declared in plan.graph.inputs.items():
        dims, sizes = declared.shape or (), plan.provenance.shapes[name]
        free = [dim for dim, size in zip(dims, sizes, strict=False) if not isinstance(dim, int) and size == 1]
        if free and name not in given:
            whole, used = ("x".join(map(str, numbers)) for numbers in ([d if isinstance(d, int) else "?" for d in dims], sizes))
            remarks(options).print(f"input {name} is {whole}: tuned at {used}, needed --shape {name}=… for other sizes")


def _remark_on_branches(plan: Plan, options: argparse.Namespace) -> None:
    """Say which inputs decide what runs, and for which of their values the plan was tuned only because nobody said otherwise."""
    given = {name for name, _ in options.input}
    for name, value in plan.provenance.values.items():
        if name not in given:
            remarks(options).print(f"input {name} decides which branch of the model runs: tuned for {value}, needed "
                                   f"--input {name}=… for another one")


def _sizes(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name}={'x'.join(map(str, sizes)) or 'scalar'}" for name, sizes in shapes.items())
