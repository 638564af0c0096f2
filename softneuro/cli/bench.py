"""``softneuro bench``: how fast a plan is, alone or in turns with other engines."""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from softneuro import cpu
from softneuro.bench.batch import batch_of, check_runs, with_batch
from softneuro.bench.engines import PEERS, Engine, installed, require
from softneuro.bench.machine import machine, peak_gflops, versions
from softneuro.bench.process import EngineFailed
from softneuro.bench.statistics import OURS, Result, warnings
from softneuro.bench.tables import CASE, ENGINE, SAMPLES, START, TIMES, Column, as_data, cells, speed_markdown, varying, verdicts
from softneuro.bench.turns import Case, Found, measure
from softneuro.cli.arguments import add_input, add_limit, positive, seconds
from softneuro.cli.columns import STAYS, print_columns, say_missing
from softneuro.cli.columns import Column as TextColumn
from softneuro.cli.console import Reporter, console, print_json, progress_bar, remarks
from softneuro.cli.inputs import feeds_for, session_of
from softneuro.cli.sources import is_plan, model_of
from softneuro.cli.spelling import did_you_mean
from softneuro.errors import InputError, NotInstalled
from softneuro.plan.plan import Plan
from softneuro.runtime.session import Session
from softneuro.tuning.tune import tune
from softneuro.types import Array, Shape

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro bench model.plan --against onnxruntime,openvino --threads 1,2"
_MOST_THREADS = 1024
_WORTH = {"import ms": 0, "p99 ms": 1, "of peak": 2, "differs": 3, "p90 ms": 4, "first ms": 4, "load ms": 5, "runs/s": 6,
          "samples/s": 7, "spread": 8}  # fmt: skip
"""Columns that a narrow terminal gives up, those of the least worth first; the others stay."""
_DESCRIPTION = """\
Measure how long an inference takes. With --against, other engines run the same
model on the same inputs beside ours.

Each engine has a process of its own; they take turns of about a third of a
second, so that a change of the machine's speed hits all alike. A turn begins
with a run that does not count; the first turn does not count at all. All
engines compute in float32, one inference at a time. Their outputs are compared
with ours before anything is timed.
"""
_EPILOG = f"""\
examples:
  {EXAMPLE}
  softneuro bench model.plan --against all --seconds 10 --markdown > speed.md
  softneuro bench model.onnx --tune --batch 1,8 --json

columns:
  median, p90, p99   half, 90 and 99 of 100 runs take at most as long
  runs/s, samples/s  inferences, and samples in them, in a second
  import, load       to import the engine, to load the model (ours: the plan)
  first              to run it for the first time
  peak MB            the most memory the engine's process had
  of peak            part of the float32 arithmetic these threads do at best
                     (Winograd needs less than counted: it can pass 100 %)
  spread             how far the medians of the turns are apart; above 15 %
                     the machine is too noisy to tell engines apart
  differs            largest difference to our outputs, relative to the
                     output's largest value

ncnn runs a translation of the model, made by pnnx before and not timed.

exit codes: 0 measured, 3 bad input, 4 an engine is not installed,
130 interrupted (what was measured until then is printed)"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench", help="measure a plan's speed, alone or beside onnxruntime, OpenVINO and ncnn", description=_DESCRIPTION,
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", type=Path, help="the plan file, or a model.onnx (then with default routines, see --tune)")
    parser.add_argument("--against", type=_peers, default=(), metavar="ENGINE,…",
                        help=f"engines to compare with: {', '.join(PEERS)}, or all, for those that are installed")
    parser.add_argument("--seconds", type=seconds, default=3.0, metavar="S",
                        help="measuring time for each engine, threads and batch (default 3; at least three turns are run)")
    cases = parser.add_argument_group("what is run")
    cases.add_argument("--threads", type=_thread_counts, metavar="N,…",
                       help="threads that share one inference (default: as the plan was tuned; for a model all allowed CPUs)")
    cases.add_argument("--batch", type=_counts, metavar="N,…",
                       help="samples in an inference: the first dimension of every input (default: as the plan was tuned)")
    cases.add_argument("--model", type=Path, help="the ONNX model for the other engines (default: the one that was tuned, when "
                       "it is beside the plan or in this folder)")  # fmt: skip
    cases.add_argument("--tune", action="store_true", help="tune a model.onnx first, for each number of threads and samples")
    add_input(parser)
    add_limit(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of tables")
    form.add_argument("--markdown", action="store_true", help="print one Markdown table")
    parser.set_defaults(function=_bench)
    return parser


def _counts(text: str) -> tuple[int, ...]:
    """Numbers of at least 1 by commas, each once."""
    return tuple(dict.fromkeys(positive(part) for part in text.split(",")))


def _thread_counts(text: str) -> tuple[int, ...]:
    counts = _counts(text)
    if max(counts) > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"found {max(counts)}, needed at most {_MOST_THREADS}")
    return counts


def _peers(text: str) -> tuple[Engine, ...] | None:
    """Engines by commas; None for all that are installed."""
    if text == "all":
        return None
    for name in text.split(","):
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"found {name!r}{did_you_mean(name, PEERS)}, needed {', '.join(PEERS)} or all")
    return tuple(PEERS[name] for name in dict.fromkeys(text.split(",")))


def _bench(options: argparse.Namespace) -> int:
    peers = _available(options)
    found, stopped = Found(), None
    with tempfile.TemporaryDirectory(prefix="softneuro-bench-") as folder:
        cases = _cases(options, bool(peers), Path(folder))
        try:
            _measure(cases, peers, Path(folder), found, options)
        except (KeyboardInterrupt, EngineFailed) as error:
            if not found.results:
                raise
            stopped = error
    _print(found, options, stopped is not None)
    if isinstance(stopped, KeyboardInterrupt):
        raise KeyboardInterrupt("what was measured until then is above")
    if stopped is not None:
        raise stopped
    return 0


def _available(options: argparse.Namespace) -> Sequence[Engine]:
    """The peers that were asked for. Raises NotInstalled when one is not there, or for ``all`` when none is."""
    if options.against is not None:
        require(options.against)
        return tuple(options.against)
    peers = [engine for engine in PEERS.values() if installed(engine)]
    if not peers:
        raise NotInstalled("none of the other engines is installed, needed pip install 'softneuro[bench]'")
    absent = [name for name, engine in PEERS.items() if engine not in peers]
    if absent:
        remarks(options).print(f"{', '.join(absent)}: not installed, left out")
    return peers


def _cases(options: argparse.Namespace, peers: bool, folder: Path) -> list[Case]:
    """The cases that the options ask for; plans made of a model are written into the folder."""
    path: Path = options.plan
    if options.tune and is_plan(path):
        raise InputError(f"{path}: is a plan, --tune needs a model.onnx")
    if options.batch and options.input:
        raise InputError("found both --batch and --input, needed one of them: the inputs that are given are a batch already")
    session = session_of(path, _with(options, threads=None, quiet=options.quiet or options.tune))
    model = model_of(path, session.plan, options.model) if peers else None
    if model is not None and not model.is_file():
        raise InputError(f"{model}: is not a file, needed the ONNX model for the other engines")
    feeds = {batch: _feeds(session, batch, options) for batch in options.batch or (None,)}
    for name, array in next(iter(feeds.values())).items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"input {name!r} is a {type(array).__name__}, needed a model that takes tensors alone")
    cases: list[Case] = []
    for threads in _threads(session.plan, options):
        peak = peak_gflops(threads)
        for batch, arrays in feeds.items():
            shapes = {name: array.shape for name, array in arrays.items()}
            values = {name: int(arrays[name].reshape(-1)[0]) for name in session.control_inputs if arrays[name].size == 1}
            plan = path if is_plan(path) else _made(session.plan, shapes, values, threads, folder / f"{len(cases)}.plan", options)
            cases.append(Case(path.name, plan, model, threads, batch or batch_of(shapes), arrays, peak))
    return cases


def _with(options: argparse.Namespace, **others: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), **others})


def _threads(plan: Plan, options: argparse.Namespace) -> tuple[int, ...]:
    tuned = plan.provenance.threads
    counts: tuple[int, ...] = options.threads or (min(tuned, cpu.allowed_cpus()),)
    if is_plan(options.plan) and set(counts) != {tuned}:
        remarks(options).print(f"{options.plan}: was tuned for threads {tuned}: for other numbers other routines may be faster")
    return counts


def _feeds(session: Session, batch: int | None, options: argparse.Namespace) -> dict[str, Array]:
    """The inputs, with so many samples each, or as many as the options say."""
    if batch is None:
        return feeds_for(session, options)
    if is_plan(options.plan):
        check_runs(session.plan, batch, str(options.plan))
    shapes = with_batch({**session.plan.provenance.shapes, **dict(options.shape)}, batch)
    return feeds_for(session, _with(options, shape=list(shapes.items()), quiet=options.quiet or batch != options.batch[0]))


def _made(default: Plan, shapes: Mapping[str, Shape], values: Mapping[str, int], threads: int, path: Path,
          options: argparse.Namespace) -> Path:
    """A plan of the model for these shapes and values, tuned or with default routines."""
    made = default.provenance
    if not options.tune and (dict(made.shapes), made.threads) == (dict(shapes), threads):
        default.save(path)
        return path
    with progress_bar(options) as bar:
        limit = None if options.tune else 0
        tune(options.plan, shapes=shapes, values=values, threads=threads, time_limit=limit, progress=Reporter(bar)).save(path)
    return path


@dataclass(frozen=True)
class _Bar:
    """Where measuring stands, drawn between turns."""

    bar: Any
    task: Any

    def __call__(self, text: str, done: int, total: int) -> None:
        self.bar.update(self.task, description=text[:60], completed=done, total=total or None)
        self.bar.refresh()


def _measure(cases: Sequence[Case], peers: Sequence[Engine], folder: Path, found: Found, options: argparse.Namespace) -> None:
    with progress_bar(options) as bar:
        progress = _Bar(bar, bar.add_task("", total=None))
        for case in cases:
            measure(case, peers, options.seconds, folder, found, progress)


def _print(found: Found, options: argparse.Namespace, interrupted: bool) -> None:
    out, aside = console(), remarks(options)
    results, about = found.results, machine()
    unsure = warnings(results)
    if options.json:
        print_json({**about, "seconds": options.seconds, "versions": versions(results), "results": as_data(results),
                    "left_out": [{"engine": e.engine, "case": e.case, "reason": e.reason} for e in found.left_out],
                    "warnings": unsure, "interrupted": interrupted})  # fmt: skip
        return
    engines = ", ".join(f"{name} {version}" for name, version in versions(results).items())
    out.print(f"{about['cpu']}, {about['target']}, {about['cpus']} CPUs, {engines}")
    if options.markdown:
        out.print(f"\n{speed_markdown(results)}\n")
    else:
        _print_tables(results, options)
    for sentence in verdicts(results):
        out.print(sentence)
    for entry in found.left_out:
        aside.print(f"left out: {entry.reason} ({entry.case})")
    for sentence in unsure:
        aside.print(f"warning: {sentence}")


def _print_tables(results: Sequence[Result], options: argparse.Namespace) -> None:
    """Times, then starts and everything else: two tables of a terminal's width each."""
    out, first = console(), results[0]
    runs = sum(len(r.times) for r in results if r.engine == OURS)
    out.print(f"{first.model}, threads {_all(r.threads for r in results)}, batch {_all(r.batch for r in results)}, "
              f"{runs} runs of {OURS}\n")  # fmt: skip
    names = [ENGINE, *varying(results, CASE)]
    samples = any(r.batch != 1 for r in results)
    missing: list[str] = []
    for columns in ([column for column in TIMES if samples or column is not SAMPLES], START):
        missing += _print_table(out, results, [*names, *columns])
        out.print()
    say_missing(options, missing)


def _print_table(out: Console, results: Sequence[Result], columns: Sequence[Column]) -> list[str]:
    """Print the columns there is room for; returns the heads of the others."""
    groups = cells(results, columns)
    ends = list(itertools.accumulate(len(group) for group in groups))
    texts = zip(*itertools.chain.from_iterable(groups), strict=True)
    drawn = [TextColumn(column.head, text, _WORTH.get(column.head, STAYS), column is not ENGINE)
             for column, text in zip(columns, texts, strict=True)]  # fmt: skip
    return print_columns(out, drawn, sections=[end - 1 for end in ends[:-1]])


def _all(values: Iterable[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(values)))
