"""What this process runs on, beside the processor itself: CPUs it may use, memory, and settings of the system.

Everything that reads takes the root folder to look under, so that recorded machines can be tested.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from softneuro.cpu import cpu_cgroup_folders, cpu_quota

__all__ = ["Machine", "read_machine"]

_SYSTEM_CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Machine:
    """cpus: logical CPUs that are online; affinity: those this process may run on; quota: CPUs that its cgroup grants
    (None: no limit); allowed: how many threads make sense, from both. smt: whether cores run several threads at once.

    governor, max_mhz, huge_pages: settings of the kernel, None where they cannot be read. virtual: whether this is a
    virtual machine. Memory is in bytes; memory_limit is the cgroup's, None without one. load: runnable threads, averaged
    over the last minute, None where the system does not count them.
    """

    cpus: int
    affinity: int
    quota: float | None
    allowed: int
    smt: bool | None
    virtual: bool | None
    governor: str | None
    max_mhz: float | None
    huge_pages: str | None
    memory_total: int | None
    memory_available: int | None
    memory_limit: int | None
    load: float | None


def read_machine(root: Path, affinity: int, allowed: int, cores: int) -> Machine:
    """The machine that `proc` and `sys` under ``root`` describe. cores: physical ones."""
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    cpus = sum(line.startswith("processor") for line in cpuinfo.splitlines()) or os.cpu_count() or 1
    memory = _memory(_read(root / "proc/meminfo") or "")
    khz = _number(root / _SYSTEM_CPU / "cpu0/cpufreq/cpuinfo_max_freq")
    return Machine(
        cpus=cpus, affinity=affinity, quota=cpu_quota(root), allowed=allowed,
        smt=_smt(root, cpus, cores), virtual=_virtual(root, cpuinfo),
        governor=_read(root / _SYSTEM_CPU / "cpu0/cpufreq/scaling_governor"), max_mhz=None if khz is None else khz / 1000,
        huge_pages=_chosen(_read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        memory_total=memory.get("MemTotal"), memory_available=memory.get("MemAvailable"), memory_limit=_memory_limit(root),
        load=_load(_read(root / "proc/loadavg")),
    )  # fmt: skip


def _smt(root: Path, cpus: int, cores: int) -> bool | None:
    active = _read(root / _SYSTEM_CPU / "smt/active")
    if active in ("0", "1"):
        return active == "1"
    return cpus > cores if cores else None


def _virtual(root: Path, cpuinfo: str) -> bool | None:
    """x86 kernels note a hypervisor among the flags; others name it below /sys."""
    lines = [line for line in cpuinfo.splitlines() if line.startswith("flags")]
    if lines:
        return "hypervisor" in lines[0].split()
    return True if _read(root / "sys/hypervisor/type") else None


def _memory(meminfo: str) -> dict[str, int]:
    """Bytes by name of the text of /proc/meminfo."""
    pairs = (line.partition(":") for line in meminfo.splitlines())
    return {name: int(text.split()[0]) << 10 for name, _, text in pairs if text.split()[:1] and text.split()[0].isdigit()}


def _memory_limit(root: Path) -> int | None:
    """The tightest limit of the process's groups in the unified hierarchy (cgroup v2), in bytes."""
    groups, mounts = _read(root / "proc/self/cgroup"), _read(root / "proc/self/mountinfo")
    if groups is None or mounts is None:
        return None
    found = (_number(root / folder.relative_to("/") / "memory.max") for folder in cpu_cgroup_folders(groups, mounts))
    return min((int(limit) for limit in found if limit is not None), default=None)


def _chosen(text: str | None) -> str | None:
    """The word in brackets: ``always [madvise] never``."""
    return text.partition("[")[2].partition("]")[0] or None if text else None


def _load(text: str | None) -> float | None:
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _number(path: Path) -> float | None:
    text = _read(path)
    return float(text) if text and text.isascii() and text.isdigit() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
