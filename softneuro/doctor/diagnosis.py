"""All that `softneuro doctor` looks at, gathered."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from softneuro import cpu
from softneuro._version import __version__
from softneuro.codegen import target as targets
from softneuro.codegen.jit import cache_folder
from softneuro.codegen.target import Target
from softneuro.cpu import Cpu
from softneuro.doctor.cache import Cache, read_cache
from softneuro.doctor.machine import Machine, read_machine
from softneuro.doctor.selfcheck import SelfCheck, self_check
from softneuro.tuning.peak import DTYPES, Peak, arithmetic, measure_peak, steady_times

__all__ = ["INSTRUCTION_SETS", "Diagnosis", "Noise", "diagnose", "noise_of", "target_reason"]

NEEDED = ("numpy", "onnx", "numba", "llvmlite")
PEERS = ("onnxruntime", "openvino", "ncnn")
_STEADY_RUNS = 60

_X86 = {
    "AVX2": "avx2", "FMA": "fma", "F16C": "f16c", "AVX-512F": "avx512f", "AVX-512BW": "avx512bw", "AVX-512DQ": "avx512dq",
    "AVX-512VL": "avx512vl", "AVX-512 VNNI": "avx512vnni", "AVX-512 BF16": "avx512bf16", "AVX-512 FP16": "avx512fp16",
    "AVX-VNNI": "avxvnni", "AMX tile": "amx-tile", "AMX int8": "amx-int8", "AMX bf16": "amx-bf16", "AMX fp16": "amx-fp16",
}  # fmt: skip
_ARM = {
    "NEON": "neon", "FP16": "fullfp16", "dot product": "dotprod", "BF16": "bf16", "I8MM": "i8mm", "SVE": "sve", "SVE2": "sve2",
    "SME": "sme",
}  # fmt: skip
INSTRUCTION_SETS: Mapping[str, Mapping[str, str]] = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}
"""Instruction sets that matter to inference: architecture to name to LLVM's name."""


@dataclass(frozen=True)
class Noise:
    """How much equal pieces of work differ in time: medians and 90th percentiles relative to the shortest, less 1."""

    runs: int
    median: float
    percentile_90: float


@dataclass(frozen=True)
class Diagnosis:
    """The state of this machine and installation.

    instruction_sets: whether each that matters is there. target and target_reason: what kernels are made for, and why.
    instructions: what multiplies each of DTYPES, or what is missing. peaks: with one thread and with all allowed ones,
    empty when nothing was measured, like noise. versions: None for a package that is not installed.
    """

    cpu: Cpu
    fingerprint: str
    machine: Machine
    instruction_sets: Mapping[str, bool]
    target: str
    target_reason: str
    instructions: Mapping[str, str]
    peaks: tuple[Peak, ...]
    noise: Noise | None
    versions: Mapping[str, str | None]
    cache: Cache
    check: SelfCheck


def diagnose(measure: bool = True, root: Path = Path("/"), timer: Callable[[], int] = time.perf_counter_ns) -> Diagnosis:
    """Look at everything; takes some seconds, most of them to measure what the machine can do at best."""
    processor, target, threads = cpu.host(), targets.host(), cpu.allowed_cpus()
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    machine = read_machine(root, affinity, threads, processor.cores)  # first, as the load average is to be that of others
    check = self_check(target, threads, timer)
    known = INSTRUCTION_SETS.get(platform.machine().lower(), {})
    ready = measure and check.ok
    return Diagnosis(
        processor, cpu.fingerprint(), machine, {name: feature in processor.features for name, feature in known.items()},
        target.name, target_reason(target, processor), {dtype: arithmetic(dtype, target).instructions for dtype in DTYPES},
        tuple(measure_peak(target, count, timer, dtypes=DTYPES) for count in sorted({1, threads})) if ready else (),
        noise_of(steady_times(target, threads, _STEADY_RUNS, timer)) if ready else None,
        _versions(), read_cache(cache_folder()), check,
    )  # fmt: skip


def noise_of(times: Sequence[int]) -> Noise:
    """The spread of times of equal work."""
    shortest = max(min(times), 1)
    median, high = np.percentile(times, (50, 90))
    return Noise(len(times), float(median) / shortest - 1, float(high) / shortest - 1)


def target_reason(target: Target, processor: Cpu) -> str:
    """Why kernels are made for this target, in words."""
    width = f"{target.registers} registers of {target.vector_bits} bits"
    if target.name == "avx512":
        return f"AVX-512F, VL and DQ are there: {width}"
    if target.name == "avx2":
        missing = [name for name, feature in (("F", "avx512f"), ("VL", "avx512vl"), ("DQ", "avx512dq"))
                   if feature not in processor.features]  # fmt: skip
        return f"AVX2 and FMA are there, AVX-512 {', '.join(missing)} is not: {width}" if missing else f"AVX2 and FMA: {width}"
    return f"AVX2 or FMA is missing: {width}" if target.name == "sse4" else width


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"softneuro": __version__, "python": platform.python_version()}
    found |= {name: _version(name) for name in NEEDED}
    found["llvm"] = _llvm_version()
    return found | {name: _version(name) for name in PEERS}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _llvm_version() -> str | None:
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError):
        return None
    return ".".join(map(str, llvm.llvm_version_info))
