"""Measure what this machine can do at best: GFLOP/s in registers by data type, GB/s read from each level of memory.

    python tools/peak.py [--threads N] [--json]
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.tuning.peak import DTYPES, LEVELS, Peak, measure_peak


def lines(peaks: Sequence[Peak]) -> list[str]:
    """A table with one row for each number of threads."""
    narrow = [dtype for dtype in DTYPES if any(dtype in peak.narrow for peak in peaks)]
    head = (f"{'threads':>7} {'GFLOP/s':>9} {'per thread':>10}" + "".join(f"{dtype + ' G/s':>11}" for dtype in narrow)
            + "".join(f"{level + ' GB/s':>11}" for level in LEVELS))  # fmt: skip
    rows = [
        f"{peak.threads:7d} {peak.gflops:9.1f} {peak.gflops / peak.threads:10.1f}"
        + "".join(f"{peak.narrow[dtype]:11.1f}" for dtype in narrow)
        + "".join(f"{peak.read_gbps[level]:11.1f}" for level in LEVELS)
        for peak in peaks
    ]
    return [head, *rows]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=cpu.allowed_cpus(), metavar="N",
                        help="measure with 1 to N threads (default: %(default)s, all allowed CPUs)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    target = targets.host()
    peaks = [measure_peak(target, threads, dtypes=DTYPES) for threads in range(1, options.threads + 1)]
    if options.json:
        found = {"machine": cpu.fingerprint(), "target": target.name, "peaks": list(map(dataclasses.asdict, peaks))}
        print(json.dumps(found, indent=2))
    else:
        print(f"{cpu.fingerprint()}, {target.name}", *lines(peaks), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
