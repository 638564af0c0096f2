"""``softneuro doctor``: what this machine can do, and whether softneuro works on it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from softneuro.cli.amounts import bytes_text, counted
from softneuro.cli.arguments import add_json
from softneuro.cli.console import console, print_json, print_table, remarks
from softneuro.doctor import Diagnosis, Finding, cache_folder, clean_cache, diagnose, findings
from softneuro.tuning.peak import DTYPES, LEVELS

__all__ = ["EXAMPLE", "add_parser"]

EXAMPLE = "softneuro doctor"
_CANNOT_RUN = 4
_COLOURS = {"error": "red", "warning": "yellow", "note": ""}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor", help="show what this machine can do, and check that softneuro works on it",
        description="Show the processor, what this process may use of it, the best that it can do (measured in some seconds, "
                    "so nothing else should run), versions and the cache of compiled kernels; compile a kernel and check its "
                    "result; and say what is wrong and what to do about it.",
        epilog=f"examples:\n  {EXAMPLE}\n  softneuro doctor --no-measure --json\n  softneuro doctor --clean-cache\n\n"
               "exit codes: 0 softneuro works here, 3 the cache cannot be cleaned, 4 softneuro cannot work here",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--no-measure", action="store_true", help="leave out what takes seconds: peaks and noise")
    parser.add_argument("--clean-cache", action="store_true",
                        help="only remove the compiled kernels from the cache folder ($SOFTNEURO_CACHE, by default below "
                             "~/.cache/softneuro): they are compiled again when needed")  # fmt: skip
    add_json(parser)
    parser.set_defaults(function=_doctor)
    return parser


def _doctor(options: argparse.Namespace) -> int:
    if options.clean_cache:
        return _clean(options)
    if not options.no_measure:
        remarks(options).print("measuring for some seconds (--no-measure leaves it out)")
    found = diagnose(not options.no_measure)
    all_findings = findings(found)
    if options.json:
        print_json(_data(found, all_findings))
    else:
        _print(console(), found, all_findings)
    return _CANNOT_RUN if any(finding.level == "error" for finding in all_findings) else 0


def _clean(options: argparse.Namespace) -> int:
    folder = cache_folder()
    files, nbytes = clean_cache(folder)
    if options.json:
        print_json({"folder": str(folder), "removed_files": files, "removed_bytes": nbytes})
    else:
        console().print(f"{folder}: removed {counted(files, 'file')}, {bytes_text(nbytes)}")
    return 0


def _data(found: Diagnosis, all_findings: tuple[Finding, ...]) -> dict[str, Any]:
    data = dataclasses.asdict(found)
    data["cpu"]["features"] = sorted(found.cpu.features)
    for level in ("l1d", "l2", "l3"):
        data["cpu"][f"{level}_bytes"] = data["cpu"].pop(level)
    for name in ("memory_total", "memory_available", "memory_limit"):
        data["machine"][f"{name}_bytes"] = data["machine"].pop(name)
    data["cache"]["bytes"] = data["cache"].pop("nbytes")
    data["peaks"] = [
        {"threads": peak.threads, "f32_gflops": peak.gflops, "bf16_gflops": peak.narrow.get("bf16"),
         "int8_gops": peak.narrow.get("int8"), "read_gbps": dict(peak.read_gbps)} for peak in found.peaks
    ]  # fmt: skip
    data["findings"] = [dataclasses.asdict(finding) for finding in all_findings]
    return data


def _print(out: Console, found: Diagnosis, all_findings: tuple[Finding, ...]) -> None:
    for label, text in {**_processor(found), **_system(found)}.items():
        out.print(f"{label:<13} {text}")
    if found.peaks:
        _print_peaks(out, found)
    out.print()
    for label, text in _installation(found).items():
        out.print(f"{label:<13} {text}")
    out.print()
    for finding in all_findings:
        out.print(Text(f"{finding.level}: {finding.text}", style=_COLOURS[finding.level]))
        out.print(f"  {finding.advice}")
    errors = sum(finding.level == "error" for finding in all_findings)
    out.print("softneuro cannot work here" if errors else "softneuro works here")


def _processor(found: Diagnosis) -> Mapping[str, str]:
    processor, machine = found.cpu, found.machine
    present = [name for name, there in found.instruction_sets.items() if there]
    absent = [name for name, there in found.instruction_sets.items() if not there]
    smt = {True: "with SMT", False: "no SMT", None: "SMT unknown"}[machine.smt]
    limit = "no quota" if machine.quota is None else f"a quota of {machine.quota:g}"
    caches = [f"{name} {bytes_text(size)}" for name, size in
              (("L1d", processor.l1d), ("L2", processor.l2), ("L3", processor.l3)) if size]  # fmt: skip
    clock = "" if machine.max_mhz is None else f", at most {machine.max_mhz:.0f} MHz"
    return {
        "processor": f"{processor.name} ({processor.vendor}, {processor.model}){clock}",
        "has": ", ".join(present) or "nothing that matters",
        "has not": ", ".join(absent) or "-",
        "kernels for": f"{found.target}: {found.target_reason}",
        "cores": f"{processor.cores} physical, {counted(machine.cpus, 'CPU')} ({smt}); this process may use {machine.affinity}, "
                 f"{limit}: {counted(machine.allowed, 'thread')} by default",
        "caches": f"{', '.join(caches) or 'unknown'} (as one core sees them)",
    }  # fmt: skip


def _system(found: Diagnosis) -> Mapping[str, str]:
    machine = found.machine
    amounts = {"in all": machine.memory_total, "available": machine.memory_available,
               "allowed by the cgroup": machine.memory_limit}  # fmt: skip
    sizes = [f"{bytes_text(size)} {what}" for what, size in amounts.items() if size is not None]
    virtual = {True: "a virtual machine", False: "no virtual machine", None: "virtual or not: unknown"}[machine.virtual]
    load = "unknown" if machine.load is None else f"{machine.load:.2f}"
    return {
        "memory": f"{', '.join(sizes) or 'unknown'}; transparent huge pages: {machine.huge_pages or 'unknown'}",
        "system": f"{virtual}, frequency governor {machine.governor or 'unknown'}, load {load}",
    }


def _print_peaks(out: Console, found: Diagnosis) -> None:
    table = Table("at best")
    for peak in found.peaks:
        table.add_column(counted(peak.threads, "thread"), justify="right")
    table.add_column("", justify="left")
    for dtype in DTYPES:
        unit = "GOP/s" if dtype == "int8" else "GFLOP/s"
        rates = [peak.gflops if dtype == "f32" else peak.narrow.get(dtype) for peak in found.peaks]
        table.add_row(f"{dtype} {unit}", *("-" if rate is None else f"{rate:.0f}" for rate in rates), found.instructions[dtype])
    for level in LEVELS:
        what = "memory" if level == "DRAM" else f"{level} cache"
        table.add_row(f"{level} GB/s", *(f"{peak.read_gbps[level]:.0f}" for peak in found.peaks), f"read from {what}")
    out.print()
    print_table(out, table)
    if found.noise is not None:
        half, most = 100 * found.noise.median, 100 * found.noise.percentile_90
        out.print(f"the same work {found.noise.runs} times: half of them take up to {half:.1f}% longer than the fastest, "
                  f"nine of ten up to {most:.1f}%")  # fmt: skip


def _installation(found: Diagnosis) -> Mapping[str, str]:
    installed = [f"{name} {version}" for name, version in found.versions.items() if version is not None]
    absent = [name for name, version in found.versions.items() if version is None]
    cache, check = found.cache, found.check
    taken = "" if check.compile_ns is None else f", compiled in {check.compile_ns / 1e9:.1f} s"
    apart = "" if check.difference is None else f", {check.difference:.1g} from the reference"
    return {
        "versions": ", ".join(installed),
        "not installed": ", ".join(absent) or "-",
        "cache": f"{cache.folder}: {counted(cache.objects, 'kernel')}, {bytes_text(cache.nbytes)}, "
                 f"{'writable' if cache.writable else 'cannot be written'}",
        "self-check": f"{'ok' if check.ok else 'failed: ' + check.problem}{taken}{apart}",
    }  # fmt: skip
