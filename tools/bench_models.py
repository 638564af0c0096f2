"""Measure softneuro against onnxruntime and OpenVINO on real models, side by side in one run.

    python tools/bench_models.py resnet50 mobilenet-v2 --threads 1,2 --plans plans
    python tools/bench_models.py resnet50 --cold-start

Each engine has a process of its own; they take turns of a third of a second, so that drift of the machine hits all
alike. A model is tuned first unless the folder of plans has its plan. With --cold-start each turn is a fresh process
that imports the engine, loads the model and runs it once.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.tuning.peak import measure_peak
from tools.bench_inputs import Case, prepare
from tools.bench_process import Engine, EngineFailed
from tools.bench_statistics import Result, as_json, markdown, speed_table, warnings
from tools.bench_worker import ENGINES

_PAUSE_SECONDS = 0.03  # threads of an engine spin for a while after its turn


def available() -> list[str]:
    """The engines that are installed, ours first."""
    return [name for name in ENGINES if importlib.util.find_spec(name) is not None]


def measure(case: Case, engines: Sequence[str], rounds: int, seconds: float) -> list[Result]:
    """Give every engine ``rounds`` turns, after one for each that does not count."""
    peak = measure_peak(targets.host(), case.threads).gflops
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(engine) for engine in started(case, engines)]
        for number in range(rounds + 1):
            for engine in running:
                time.sleep(_PAUSE_SECONDS)
                times = engine.turn(seconds)
                if number:
                    engine.rounds.append(times)
        return [
            Result(
                case.name, case.threads, e.name, e.greeting["version"], e.rounds, case.macs, peak, e.greeting["import_ns"],
                e.greeting["load_ns"], e.greeting["first_ns"], e.peak_bytes,
            )
            for e in running
        ]  # fmt: skip


def started(case: Case, engines: Sequence[str]) -> list[Engine]:
    """The engines that can run the model."""
    found = []
    for name in engines:
        try:
            found.append(Engine(name, case.file_for(name), case.threads, case.feeds))
        except EngineFailed as error:
            print(f"{case.name}, {case.threads} threads: {error}, it is left out", file=sys.stderr)
    return found


def cold_starts(case: Case, engines: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Start every engine ``rounds`` times in turn, after one start for each that fills the file cache."""
    starts: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    for number in range(rounds + 1):
        for name in engines:
            with Engine(name, case.file_for(name), case.threads, case.feeds) as engine:
                if number:
                    starts[name].append(engine.greeting)
    return [summary(case, name, greetings) for name, greetings in starts.items()]


def summary(case: Case, engine: str, starts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The medians of the parts and of the whole of a start, and the most memory."""
    parts = ("import_ns", "load_ns", "first_ns")
    totals = [sum(start[part] for part in parts) for start in starts]
    medians = {part: statistics.median(start[part] for start in starts) for part in parts}
    return {"model": case.name, "threads": case.threads, "engine": engine, "version": starts[0]["version"],
            "median_ns": statistics.median(totals), "minimum_ns": min(totals), **medians,
            "peak_bytes": max(start["peak_bytes"] for start in starts)}  # fmt: skip


def cold_table(rows: Sequence[dict[str, Any]]) -> str:
    head = ("model", "threads", "engine", "start ms", "minimum ms", "import ms", "load ms", "first ms", "peak MB")
    keys = ("median_ns", "minimum_ns", "import_ns", "load_ns", "first_ns", "peak_bytes")
    return markdown(head, ([r["model"], str(r["threads"]), r["engine"], *(f"{r[key] / 1e6:.1f}" for key in keys)] for r in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="names that tools/fetch_models.py knows")
    parser.add_argument("--threads", default="1", metavar="N,…", help="numbers of threads (default 1)")
    parser.add_argument("--engines", default=",".join(available()), help="engines by commas (default: %(default)s)")
    parser.add_argument("--plans", type=Path, default=Path("plans"), metavar="DIR", help="folder of plans (default: plans)")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="turns of each engine (default 9)")
    parser.add_argument("--seconds", type=float, default=0.3, metavar="S", help="length of a turn (default 0.3)")
    parser.add_argument("--cold-start", action="store_true", help="time fresh processes: import, load and first run")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    engines = options.engines.split(",")
    cases = [prepare(m, int(n), options.plans.resolve()) for n in options.threads.split(",") for m in options.models]
    machine = {"machine": cpu.fingerprint(), "target": targets.host().name, "cpus": cpu.allowed_cpus(),
               "python": platform.python_version(), "system": platform.platform()}  # fmt: skip
    noise: list[str] = []
    if options.cold_start:
        starts = [row for case in cases for row in cold_starts(case, engines, options.rounds)]
        table, data = cold_table(starts), starts
        versions = {row["engine"]: row["version"] for row in starts}
    else:
        results = [result for case in cases for result in measure(case, engines, options.rounds, options.seconds)]
        table, data, noise = speed_table(results), as_json(results), warnings(results)
        versions = {result.engine: result.version for result in results}
    if options.json:
        print(json.dumps(machine | {"versions": versions, "results": data, "warnings": noise}, indent=1))
    else:
        print(", ".join(f"{key} {value}" for key, value in (machine | versions).items()), table, sep="\n\n")
    print(*(f"warning: {sentence}" for sentence in noise), sep="\n", end="\n" if noise else "", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
