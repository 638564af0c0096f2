"""Time every candidate of a problem side by side, and say why the other routines cannot compute it.

    python tools/bench_routines.py "softmax(axis=1) f32[4,1000] -> f32[4,1000] @2"

A problem is the text that `softneuro.problem.Problem.key` gives: op(parameters) inputs -> outputs @threads, a star
before what is constant. Profiles and plans hold such texts.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.errors import SoftneuroError
from softneuro.plan.defaults import choice_of
from softneuro.plan.plan import Choice
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates, rejections
from softneuro.runtime.team import Team
from softneuro.tuning.measure import Effort, measure, measure_host
from softneuro.tuning.peak import Peak, measure_peak
from softneuro.tuning.profile import Measurement


@dataclass(frozen=True)
class Row:
    """A candidate and its time, or why it has none."""

    name: str
    result: Measurement | str


def measured(problem: Problem, target: Target, footprint: int, effort: Effort) -> list[Row]:
    """All candidates, in the table's order; free ones (views) have time 0."""
    rows: dict[int, Row] = {}
    timed: dict[int, Choice] = {}
    for number, candidate in enumerate(candidates(problem, target)):
        choice = choice_of(candidate)
        built = candidate.routine.build(problem, candidate.signature, candidate.schedule, target)
        if built.host:
            rows[number] = Row(f"{choice} (on the host)", measure_host(problem))
        elif built.alias is not None:
            rows[number] = Row(f"{choice} (a view)", Measurement(0.0))
        else:
            timed[number] = choice
    numbers = {id(choice): number for number, choice in timed.items()}

    def finished(choice: Choice, result: Measurement | SoftneuroError) -> None:
        rows[numbers[id(choice)]] = Row(str(choice), result if isinstance(result, Measurement) else str(result))

    measure(problem, list(timed.values()), target, Team(problem.threads, target), footprint=footprint, effort=effort,
            finished=finished)
    return [rows[number] for number in sorted(rows)]


def table(rows: Sequence[Row], problem: Problem, peak: Peak) -> list[str]:
    """One line for each candidate, the fastest marked; the share of peak only where there are multiply-adds."""
    times = [row.result.ns for row in rows if isinstance(row.result, Measurement)]
    width = max(len(row.name) for row in rows)
    macs = problem.macs()
    lines = [f"{'candidate':{width}} {'ms':>10} {'GFLOP/s':>9} {'of peak':>8} {'GB/s':>8} {'spread':>7}"]
    for row in rows:
        if not isinstance(row.result, Measurement):
            lines.append(f"{row.name:{width}} {row.result}")
            continue
        ns = row.result.ns
        speed = f"{2 * macs / ns:9.1f} {100 * peak.share(macs, ns):7.1f}%" if macs and ns else f"{'':18}"
        bandwidth = f"{problem.nbytes() / ns:8.1f}" if ns else f"{'':8}"
        mark = " <--" if ns == min(times) else ""
        lines.append(f"{row.name:{width}} {ns / 1e6:10.4f} {speed} {bandwidth} {100 * row.result.spread:6.0f}%{mark}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", metavar="PROBLEM", help="problem texts")
    parser.add_argument("--threads", type=int, metavar="N", help="threads, instead of the problem's @N")
    parser.add_argument("--footprint", type=float, default=100, metavar="MB",
                        help="weights of the whole model, which decide how cold this layer's are (default %(default)s)")
    parser.add_argument("--blocks", type=int, default=Effort.blocks, help="rounds over all candidates (default %(default)s)")
    options = parser.parse_args(arguments)
    target = targets.host()
    print(f"{cpu.fingerprint()}, {target.name}")
    for text in options.problems:
        try:
            problem = Problem.parse(text)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        problem = replace(problem, threads=options.threads or problem.threads)
        peak = measure_peak(target, problem.threads)
        rows = measured(problem, target, int(options.footprint * 1e6), Effort(blocks=options.blocks))
        print(f"\n{problem.key()}\npeak {peak.gflops:.1f} GFLOP/s, DRAM {peak.read_gbps['DRAM']:.1f} GB/s")
        print(*table(rows, problem, peak), sep="\n")
        print(*(f"refused: {r.routine.name}: {r.reason}" for r in rejections(problem, target)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
