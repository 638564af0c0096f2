"""Measure softneuro against the other engines on real models, side by side in one run.

    python tools/bench_models.py resnet50 mobilenet-v2 --threads 1,2 --plans plans
    python tools/bench_models.py resnet50 --cold-start

What `softneuro bench` does for one plan, for many models that are fetched and tuned when needed. With --cold-start each
turn is a fresh process that imports the engine, loads the model and runs it once.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

from softneuro.bench.engines import OURS, PEERS, Engine, installed, require
from softneuro.bench.machine import machine, versions
from softneuro.bench.statistics import warnings
from softneuro.bench.tables import as_data, markdown, speed_markdown, verdicts
from softneuro.bench.turns import Case, Found, measure, start
from tools.bench_inputs import prepare


def cold_starts(case: Case, engines: Sequence[Engine], rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Start every engine ``rounds`` times in turn, after one start for each that fills the file cache."""
    starts: dict[str, list[Mapping[str, Any]]] = {engine.name: [] for engine in engines}
    for number in range(rounds + 1):
        for engine in engines:
            with start(engine, case, folder) as process:
                if number:
                    starts[engine.name].append(process.greeting)
    return [summary(case, name, greetings) for name, greetings in starts.items()]


def summary(case: Case, engine: str, starts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The medians of the parts and of the whole of a start, and the most memory."""
    parts = ("import_ns", "load_ns", "first_ns")
    totals = [sum(start[part] for part in parts) for start in starts]
    medians = {part: statistics.median(start[part] for start in starts) for part in parts}
    return {"model": case.name, "threads": case.threads, "engine": engine, "version": starts[0]["version"],
            "median_ns": statistics.median(totals), "minimum_ns": min(totals), **medians,
            "peak_bytes": max(start["peak_bytes"] for start in starts)}  # fmt: skip


def cold_table(rows: Sequence[dict[str, Any]]) -> str:
    head = ("model", "engine", "threads", "start ms", "minimum ms", "import ms", "load ms", "first ms", "peak MB")
    keys = ("median_ns", "minimum_ns", "import_ns", "load_ns", "first_ns", "peak_bytes")
    cells = ([r["model"], r["engine"], str(r["threads"]), *(f"{r[key] / 1e6:.1f}" for key in keys)] for r in rows)
    return markdown(head, cells, left=2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    there = ",".join(name for name, engine in PEERS.items() if installed(engine))
    parser.add_argument("models", nargs="+", metavar="MODEL", help="names that tools/fetch_models.py knows")
    parser.add_argument("--threads", default="1", metavar="N,…", help="numbers of threads (default 1)")
    parser.add_argument("--against", default=there, metavar="ENGINE,…", help="other engines by commas (default: %(default)s)")
    parser.add_argument("--plans", type=Path, default=Path("plans"), metavar="DIR", help="folder of plans (default: plans)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="measuring time of each engine (default 3)")
    parser.add_argument("--cold-start", action="store_true", help="time fresh processes: import, load and first run")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="cold starts of each engine (default 9)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    peers = [PEERS[name] for name in options.against.split(",") if name]
    require(peers)
    cases = [prepare(m, int(n), options.plans.resolve()) for n in options.threads.split(",") for m in options.models]
    found, about, notes = Found(), machine(), list[str]()
    with tempfile.TemporaryDirectory() as place:
        if options.cold_start:
            starts = [row for case in cases for row in cold_starts(case, (OURS, *peers), options.rounds, Path(place))]
            table, data = cold_table(starts), starts
            about["versions"] = {row["engine"]: row["version"] for row in starts}
        else:
            for case in cases:
                measure(case, peers, options.seconds, Path(place), found, lambda text, done, total: None)
            table, data = "\n".join([speed_markdown(found.results), "", *verdicts(found.results)]), as_data(found.results)
            about["versions"] = versions(found.results)
            notes = [f"left out: {entry.reason} ({entry.case})" for entry in found.left_out] + warnings(found.results)
    if options.json:
        print(json.dumps({**about, "results": data, "warnings": notes}, indent=1))
    else:
        print(", ".join(f"{key} {value}" for key, value in about.items()), table, sep="\n\n")
    print(*(f"warning: {sentence}" for sentence in notes), sep="\n", end="\n" if notes else "", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
