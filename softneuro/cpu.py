"""What this process may use: how many CPUs, which instructions, which caches.

The runtime imports this module at start, so it reads a few small text files and imports no compiler.
Everything that parses takes the text or the root folder to look under, so that recorded machines can be
tested.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Flags of /proc/cpuinfo → LLVM's feature names. Flags that say nothing about generated code are left out.
X86_FEATURES = {
    "cx16": "cx16", "movbe": "movbe", "popcnt": "popcnt", "abm": "lzcnt", "bmi1": "bmi", "bmi2": "bmi2",
    "adx": "adx", "lahf_lm": "sahf", "fsgsbase": "fsgsbase", "rdrand": "rdrnd", "rdseed": "rdseed",
    "aes": "aes", "pclmulqdq": "pclmul", "sha_ni": "sha", "gfni": "gfni", "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq", "3dnowprefetch": "prfchw", "clflushopt": "clflushopt", "clwb": "clwb",
    "sse": "sse", "sse2": "sse2", "pni": "sse3", "ssse3": "ssse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2",
    "sse4a": "sse4a", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c",
    "avx512f": "avx512f", "avx512cd": "avx512cd", "avx512bw": "avx512bw", "avx512dq": "avx512dq",
    "avx512vl": "avx512vl", "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2", "avx512_vnni": "avx512vnni", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx512_vp2intersect": "avx512vp2intersect",
    "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni", "avx_vnni_int8": "avxvnniint8", "avx_ifma": "avxifma",
    "avx_ne_convert": "avxneconvert",
    "amx_tile": "amx-tile", "amx_int8": "amx-int8", "amx_bf16": "amx-bf16", "amx_fp16": "amx-fp16",
}  # fmt: skip
AARCH64_FEATURES = {
    "fp": "fp-armv8", "asimd": "neon", "fphp": "fullfp16", "asimdhp": "fullfp16", "asimdfhm": "fp16fml",
    "asimddp": "dotprod", "asimdrdm": "rdm", "bf16": "bf16", "i8mm": "i8mm", "fcma": "complxnum",
    "jscvt": "jsconv", "frint": "fptoint", "aes": "aes", "sha2": "sha2", "sha3": "sha3", "crc32": "crc",
    "atomics": "lse", "lrcpc": "rcpc",
    "sve": "sve", "sve2": "sve2", "svei8mm": "i8mm", "svebf16": "bf16", "svef32mm": "f32mm",
    "svef64mm": "f64mm", "sme": "sme", "sme2": "sme2",
}  # fmt: skip
# What every machine of an architecture has, for systems without /proc/cpuinfo.
BASELINE_FEATURES = {
    "x86_64": frozenset({"sse", "sse2"}),
    "amd64": frozenset({"sse", "sse2"}),
    "aarch64": frozenset({"fp-armv8", "neon"}),
    "arm64": frozenset({"fp-armv8", "neon"}),
}
# Bytes of the first, second and third level data cache that one core sees; None where unknown.
CacheSizes = tuple[int | None, int | None, int | None]
_ROOT = Path("/")


@dataclass(frozen=True)
class Cpu:
    """A machine's processor.

    `model` is family.model.stepping on x86 and architecture.part.variant.revision on ARM; `features` are
    those that every core has, as LLVM spells them; `cores` counts physical cores, or CPUs where the system
    does not tell them apart; `l1d`, `l2` and `l3` are the bytes of data cache that one core sees, None where
    unknown.
    """

    vendor: str
    name: str
    model: str
    features: frozenset[str]
    cores: int
    l1d: int | None = None
    l2: int | None = None
    l3: int | None = None


@functools.cache
def host() -> Cpu:
    """The processor this process runs on."""
    return read_cpu(_ROOT, platform.machine())


def allowed_cpus() -> int:
    """CPUs this process may keep busy: its affinity, cut by its cgroup's CPU quota rounded up; at least 1."""
    return allowed(_affinity(), cpu_quota(_ROOT))


def allowed(affinity: int, quota: float | None) -> int:
    """`affinity` CPUs under a quota of `quota` CPUs (None: no quota)."""
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def fingerprint(cpu: Cpu | None = None) -> str:
    """One line that tells machines apart whose measured times differ: same processor and caches, same text.

    It holds nothing about the particular computer (host name, serial number, core count).
    """
    cpu = host() if cpu is None else cpu
    features = hashlib.sha256(",".join(sorted(cpu.features)).encode()).hexdigest()[:12]
    caches = "/".join("?" if size is None else f"{size >> 10}K" for size in (cpu.l1d, cpu.l2, cpu.l3))
    return f"{' '.join(cpu.name.split())} {cpu.model} {features} {caches}"


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_cpu(root: Path, machine: str) -> Cpu:
    """The processor that `proc` and `sys` under `root` describe; `machine` is platform.machine()'s word."""
    text = _read(root / "proc/cpuinfo")
    caches = read_caches(root / "sys/devices/system/cpu/cpu0/cache")
    cpu = None if text is None else parse_cpuinfo(text, caches)
    if cpu is not None:
        return cpu
    features = BASELINE_FEATURES.get(machine.lower(), frozenset())
    return Cpu("unknown", machine or "unknown", "0", features, os.cpu_count() or 1, *caches)


def parse_cpuinfo(text: str, caches: CacheSizes = (None, None, None)) -> Cpu | None:
    """The processor in the text of /proc/cpuinfo (x86 or aarch64); None if it is neither."""
    processors = [
        block for block in map(_fields, text.split("\n\n")) if "flags" in block or "Features" in block
    ]
    if not processors:
        return None
    first = processors[0]
    if "flags" in first:
        vendor, name = first.get("vendor_id", "unknown"), first.get("model name", "x86")
        model = ".".join(first.get(key, "?") for key in ("cpu family", "model", "stepping"))
        features = _common_features(processors, "flags", X86_FEATURES)
    else:
        vendor = first.get("CPU implementer", "unknown")
        name = first.get("model name", f"ARM {vendor}")
        keys = ("CPU architecture", "CPU part", "CPU variant", "CPU revision")
        model = ".".join(first.get(key, "?") for key in keys)
        features = _common_features(processors, "Features", AARCH64_FEATURES)
    return Cpu(vendor, name, model, features, _count_cores(processors), *caches)


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _common_features(processors: list[dict[str, str]], key: str, table: dict[str, str]) -> frozenset[str]:
    """Cores may differ (big.LITTLE, hybrids); a thread can land on any of them."""
    lines = {processor.get(key, "") for processor in processors}
    shared = frozenset.intersection(*(frozenset(line.split()) for line in lines))
    return frozenset(feature for flag, feature in table.items() if flag in shared)


def _count_cores(processors: list[dict[str, str]]) -> int:
    if not all("core id" in processor for processor in processors):
        return len(processors)
    return len({(processor.get("physical id", "0"), processor["core id"]) for processor in processors})


def read_caches(folder: Path) -> CacheSizes:
    """Data cache sizes from a folder like /sys/devices/system/cpu/cpu0/cache."""
    sizes: dict[str, int] = {}
    for index in sorted(folder.glob("index[0-9]*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level is not None and kind in ("Data", "Unified") and size is not None:
            sizes[level] = parse_size(size)
    return sizes.get("1") or None, sizes.get("2") or None, sizes.get("3") or None


def parse_size(text: str) -> int:
    """Bytes of a cache size as the kernel writes it (`48K`, `2M`, `512`); 0 for anything else."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper())
    digits = text if unit is None else text[:-1]
    return int(digits) * (unit or 1) if digits.isascii() and digits.isdigit() else 0


def cpu_quota(root: Path) -> float | None:
    """CPUs the cgroups of this process grant it, the tightest of all ancestors; None without a quota.

    Reads `proc/self/cgroup`, `proc/self/mountinfo` and the quota files of cgroup v1 and v2 under `root`.
    """
    groups, mounts = _read(root / "proc/self/cgroup"), _read(root / "proc/self/mountinfo")
    if groups is None or mounts is None:
        return None
    quotas = [
        quota for folder in cpu_cgroup_folders(groups, mounts) for quota in _folder_quotas(root, folder)
    ]
    return min(quotas, default=None)


def cpu_cgroup_folders(groups: str, mounts: str) -> list[PurePosixPath]:
    """Folders that may hold a CPU quota: the process's own group in each CPU hierarchy, and its ancestors.

    `groups` is the text of /proc/self/cgroup, `mounts` that of /proc/self/mountinfo: cgroups(7), proc(5).
    """
    folders: list[PurePosixPath] = []
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        unified = number == "0" and not controllers
        if unified or "cpu" in controllers.split(","):
            for mounted_root, mount_point in _cgroup_mounts(mounts, unified):
                folders += _group_and_ancestors(mounted_root, mount_point, path)
    return folders


def _cgroup_mounts(mounts: str, unified: bool) -> Iterator[tuple[str, str]]:
    """(mounted root, mount point) of every mount of the unified hierarchy, or of v1's cpu controller."""
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        places, kinds = before.split(), after.split()
        if not dash or len(places) < 5 or len(kinds) < 3:
            continue
        kind, options = kinds[0], kinds[-1].split(",")
        if kind == "cgroup2" if unified else kind == "cgroup" and "cpu" in options:
            yield places[3], places[4].replace("\\040", " ")


def _group_and_ancestors(mounted_root: str, mount_point: str, path: str) -> list[PurePosixPath]:
    """A container may see only a part of the hierarchy; a group outside that part counts as its root."""
    top, group = PurePosixPath(mount_point), PurePosixPath(path)
    inside = ".." not in group.parts and group.is_relative_to(mounted_root)
    folder = top / group.relative_to(mounted_root) if inside else top
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]


def _folder_quotas(root: Path, folder: PurePosixPath) -> Iterator[float]:
    place = root / folder.relative_to("/")
    unified = (_read(place / "cpu.max") or "").split()
    if len(unified) == 2:
        yield from parse_quota(*unified)
    quota, period = _read(place / "cpu.cfs_quota_us"), _read(place / "cpu.cfs_period_us")
    if quota is not None and period is not None:
        yield from parse_quota(quota, period)


def parse_quota(quota: str, period: str) -> list[float]:
    """CPUs granted by `quota` microseconds a `period`; empty when unlimited (`max`, -1) or unreadable."""
    try:
        granted, every = int(quota), int(period)
    except ValueError:
        return []
    return [granted / every] if granted > 0 and every > 0 else []


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
