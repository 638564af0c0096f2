"""``softneuro run``: run a plan on files or random input, and write the outputs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softneuro.cli.arguments import add_force, add_input, add_threads, positive, writable
from softneuro.cli.console import console, milliseconds
from softneuro.cli.inputs import feeds_for
from softneuro.runtime.session import Session

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro run model.plan --input input=picture.npy --output results"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="run a plan", epilog=f"example: {EXAMPLE}"
    )
    parser.add_argument("plan", type=Path, help="the plan file")
    add_input(parser)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write every output there as a .npy file")
    add_force(parser)
    parser.add_argument("--repeat", type=positive, default=1, metavar="N", help="run N times and print the times")
    add_threads(parser)
    parser.set_defaults(function=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    out = console()
    session = Session(options.plan, options.threads)
    feeds = feeds_for(session, options)
    files = _output_files(options.output, session, options.force) if options.output else {}
    times = []
    for _ in range(options.repeat):
        start = time.perf_counter_ns()
        outputs = session.run(feeds)
        times.append(time.perf_counter_ns() - start)
    for name, array in outputs.items():
        out.print(f"{name}: {array.dtype} {array.shape}{_range(array)}")
    out.print(_times(times))
    for name, path in files.items():
        array = outputs[name]
        np.save(path, array.astype(str) if array.dtype.hasobject else array, allow_pickle=False)
    return 0


def _times(times: Sequence[int]) -> str:
    first = f"first run {milliseconds(times[0])}"
    if len(times) == 1:
        return first
    return f"{first}, then median {milliseconds(float(np.median(times[1:])))}, minimum {milliseconds(min(times[1:]))}"


def _output_files(folder: Path, session: Session, force: bool) -> dict[str, Path]:
    """Where every output goes. Makes the folder; raises InputError for a file that is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    return {info.name: writable(folder / f"{_file_name(info.name)}.npy", force) for info in session.outputs}


def _range(array: np.ndarray[Any, Any]) -> str:
    if array.dtype.kind not in "fiub" or array.size == 0:
        return ""
    return f", {float(array.min()):.6g} to {float(array.max()):.6g}"


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
