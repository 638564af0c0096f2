"""``softneuro demo``: tune a small model that comes with the package, and show what tuning does."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console

from softneuro.cli.amounts import counted, finite
from softneuro.cli.arguments import add_json, add_threads
from softneuro.cli.columns import STAYS, Column, print_columns
from softneuro.cli.console import Reporter, console, milliseconds, print_json, progress_bar, remarks
from softneuro.cli.plan_text import gain
from softneuro.cli.profile_tables import schedule_text
from softneuro.cli.units import unit_for
from softneuro.compare import Difference, differences, onnxruntime_session, times_in_turns
from softneuro.demo.data import INPUT, OUTPUT, load_pictures, model_path
from softneuro.errors import InputError, NotInstalled
from softneuro.plan.plan import Plan
from softneuro.report.rows import LayerRow, is_free, layer_rows
from softneuro.runtime.session import Session
from softneuro.tuning.summary import made_data, summarise
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
    add_json(parser)
    parser.set_defaults(function=_demo)
    return parser


@dataclass(frozen=True)
class _Peer:
    """onnxruntime on the same pictures: nanoseconds for one, and how far its answers are."""

    ns: float
    apart: Difference


@dataclass(frozen=True)
class _Shown:
    """What there is to show. ns: of one picture; peer: onnxruntime, or the reason why it is not there."""

    plan: Plan
    threads: int
    tuning_seconds: float
    rows: Sequence[LayerRow]
    right: int
    pictures: int
    ns: float
    peer: _Peer | str

    @property
    def agrees(self) -> bool:
        return isinstance(self.peer, str) or self.peer.apart.within(_TOLERANCE)


def _demo(options: argparse.Namespace) -> int:
    remarks(options).print("tuning a CNN that tells ten kinds of clothes apart (Fashion-MNIST); this takes less than a minute")
    shown = _show(options)
    if options.json:
        print_json(_data(shown))
    else:
        _print(console(), shown)
    return 0 if shown.agrees else 1


def _show(options: argparse.Namespace) -> _Shown:
    pictures, labels = load_pictures()
    samples = [{INPUT: picture} for picture in np.split(pictures, len(pictures))]
    start = time.perf_counter()
    with progress_bar(options) as bar:
        plan = tune(model_path(), threads=options.threads, progress=Reporter(bar))
    taken = time.perf_counter() - start
    session = Session(plan, options.threads)
    logits = np.concatenate([session.run(sample)[OUTPUT] for sample in samples])
    rows = [row for row in layer_rows(session, samples[0], _PROFILED_RUNS) if not is_free(row)]
    ns, peer = _compared(session, samples, logits)
    return _Shown(plan, session.threads, taken, rows, int((logits.argmax(1) == labels).sum()), len(labels), ns, peer)


def _compared(session: Session, samples: Sequence[Mapping[str, Array]], logits: Array) -> tuple[float, _Peer | str]:
    """Nanoseconds for one picture here, and what onnxruntime says and takes."""
    engines = {"softneuro": lambda sample: session.run(None, sample)}
    try:
        peer = onnxruntime_session(model_path(), samples[0], session.threads)
    except (InputError, NotInstalled) as error:
        return times_in_turns(engines, samples)["softneuro"], str(error)
    engines["onnxruntime"] = lambda sample: peer.run(None, sample)
    times = times_in_turns(engines, samples)
    there = np.concatenate([peer.run(None, sample)[0] for sample in samples])
    (apart,) = differences({OUTPUT: logits}, {OUTPUT: there})
    return times["softneuro"], _Peer(times["onnxruntime"], apart)


def _data(shown: _Shown) -> dict[str, Any]:
    peer: dict[str, Any] = {"not_compared": shown.peer} if isinstance(shown.peer, str) else {
        "picture_ns": shown.peer.ns, "largest_difference": finite(shown.peer.apart.absolute), "agrees": shown.agrees,
    }  # fmt: skip
    return {
        **made_data(shown.plan, summarise(shown.plan)), "tuning_seconds": round(shown.tuning_seconds, 3),
        "pictures": shown.pictures, "pictures_right": shown.right, "picture_ns": shown.ns, "onnxruntime": peer,
        "rows": [asdict(row) for row in shown.rows],
    }  # fmt: skip


def _print(out: Console, shown: _Shown) -> None:
    made = shown.plan.provenance
    out.print(f"tuned in {shown.tuning_seconds:.0f} s: {counted(made.threads, 'thread')}, {made.target}, {made.machine}\n")
    _print_layers(out, shown.rows)
    out.print(f"\naccuracy     {shown.right} of {shown.pictures} pictures right ({100 * shown.right / shown.pictures:.1f}%)")
    out.print(f"search       {gain(made) or 'nothing was measured'}")
    if made.measured_ns and made.predicted_ns and made.measured_ns > _BUSY * made.predicted_ns:
        out.print("             (far more than predicted: other programs seem to use these CPUs)")
    out.print(f"softneuro    {milliseconds(shown.ns)} per picture")
    out.print(f"onnxruntime  {_peer_text(shown)}")
    out.print(f"\nnext: {NEXT}")


def _peer_text(shown: _Shown) -> str:
    peer = shown.peer
    if isinstance(peer, str):
        return f"not compared: {peer}"
    return (f"{milliseconds(peer.ns)} per picture on as many threads ({peer.ns / shown.ns:.2f}x), largest difference "
            f"{peer.apart.absolute:.2g} of {peer.apart.scale:.3g}{'' if shown.agrees else ': too much'}")  # fmt: skip


def _print_layers(out: Console, rows: Sequence[LayerRow]) -> None:
    unit = unit_for(sum(row.ns for row in rows))
    print_columns(out, [
        Column("layer", [row.name for row in rows], STAYS),
        Column("op", [row.op for row in rows], 2),
        Column("shapes", [row.shapes for row in rows], 3),
        Column("routine", [schedule_text(row.routine, row.schedule) for row in rows], 6),
        Column(unit.name, [unit.number(row.ns) for row in rows], STAYS, True),
        Column("share", [f"{100 * row.share:.1f}%" for row in rows], 8, True),
    ])  # fmt: skip
