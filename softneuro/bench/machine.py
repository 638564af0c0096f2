"""What a benchmark's numbers depend on beside the model: the machine and the versions."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from softneuro import cpu
from softneuro.bench.statistics import Result
from softneuro.codegen import target as targets
from softneuro.tuning.peak import measure_peak

__all__ = ["machine", "peak_gflops", "versions"]


def machine() -> dict[str, object]:
    """This machine as plain data."""
    return {
        "cpu": cpu.host().name, "machine": cpu.fingerprint(), "target": targets.host().name, "cpus": cpu.allowed_cpus(),
        "python": platform.python_version(), "system": platform.platform(),
    }  # fmt: skip


def versions(results: Iterable[Result]) -> dict[str, str]:
    """The version of each engine that was measured."""
    return {result.engine: result.version for result in results}


def peak_gflops(threads: int) -> float:
    """The float32 GFLOP/s that so many threads reach at best, measured now. Raises CompileError."""
    return measure_peak(targets.host(), threads, levels=()).gflops
