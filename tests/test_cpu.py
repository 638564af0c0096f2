"""cpu: recorded machines are read as what they are, and quotas cut what a process may use."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from softneuro import cpu

INTEL = """\
processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R) Platinum 8470
stepping	: 8
cpu MHz		: 2001.000
physical id	: 0
core id		: 0
flags		: fpu mmx sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes avx f16c \
rdrand abm bmi1 avx2 bmi2 avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx_vnni avx512_bf16 \
avx512vbmi avx512_vbmi2 gfni vaes avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_fp16 \
amx_tile amx_int8 amx_bf16
bugs		: spectre_v1

processor	: 1
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R) Platinum 8470
stepping	: 8
cpu MHz		: 3100.000
physical id	: 0
core id		: 0
flags		: fpu mmx sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes avx f16c \
rdrand abm bmi1 avx2 bmi2 avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx_vnni avx512_bf16 \
avx512vbmi avx512_vbmi2 gfni vaes avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_fp16 \
amx_tile amx_int8 amx_bf16

processor	: 2
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R) Platinum 8470
stepping	: 8
physical id	: 1
core id		: 0
flags		: fpu mmx sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes avx f16c \
rdrand abm bmi1 avx2 bmi2 avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx_vnni avx512_bf16 \
avx512vbmi avx512_vbmi2 gfni vaes avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_fp16 \
amx_tile amx_int8 amx_bf16
"""
AMD = """\
processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 25
model		: 17
model name	: AMD EPYC
stepping	: 1
microcode	: 0x1000065
cpu MHz		: 2596.148
physical id	: 0
siblings	: 2
core id		: 0
cpu cores	: 2
flags		: fpu mmx fxsr sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave \
avx f16c rdrand hypervisor lahf_lm abm sse4a fsgsbase bmi1 avx2 smep bmi2 avx512f avx512dq adx avx512ifma \
clflushopt clwb avx512cd sha_ni avx512bw avx512vl avx512_bf16 avx512vbmi avx512_vbmi2 gfni vaes \
vpclmulqdq avx512_vnni avx512_bitalg avx512_vpopcntdq

processor	: 1
vendor_id	: AuthenticAMD
cpu family	: 25
model		: 17
model name	: AMD EPYC
stepping	: 1
physical id	: 0
core id		: 1
flags		: fpu mmx fxsr sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave \
avx f16c rdrand hypervisor lahf_lm abm sse4a fsgsbase bmi1 avx2 smep bmi2 avx512f avx512dq adx avx512ifma \
clflushopt clwb avx512cd sha_ni avx512bw avx512vl avx512_bf16 avx512vbmi avx512_vbmi2 gfni vaes \
vpclmulqdq avx512_vnni avx512_bitalg avx512_vpopcntdq
"""
NEOVERSE = """\
processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

processor	: 1
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1
"""


def test_intel() -> None:
    machine = cpu.parse_cpuinfo(INTEL)
    assert machine is not None
    assert (machine.vendor, machine.name) == ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8470")
    assert machine.model == "6.143.8"
    assert machine.cores == 2, "two sockets with a core 0 each; two threads share the first"
    assert machine.features >= {
        "sse3", "sse4.1", "sse4.2", "lzcnt", "bmi", "bmi2", "avx2", "fma", "f16c", "avxvnni", "avx512f",
        "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16", "amx-tile",
        "amx-int8", "amx-bf16",
    }  # fmt: skip
    assert not machine.features & {"ht", "fpu", "avx_vnni", "avx512_vnni", "sse4a", "neon"}


def test_amd() -> None:
    machine = cpu.parse_cpuinfo(AMD, (32 << 10, 1 << 20, 32 << 20))
    assert machine is not None
    assert (machine.vendor, machine.name, machine.model) == ("AuthenticAMD", "AMD EPYC", "25.17.1")
    assert (machine.cores, machine.l1d, machine.l2, machine.l3) == (2, 32 << 10, 1 << 20, 32 << 20)
    assert machine.features >= {
        "avx512vnni",
        "avx512bf16",
        "avx512vbmi2",
        "avx512ifma",
        "sse4a",
        "sha",
        "sahf",
    }
    assert not machine.features & {"avxvnni", "amx-tile", "avx512fp16"}


def test_aarch64_keeps_only_what_every_core_has() -> None:
    machine = cpu.parse_cpuinfo(NEOVERSE)
    assert machine is not None
    assert (machine.vendor, machine.name, machine.model) == ("0x41", "ARM 0x41", "8.0xd0c.0x3.1")
    assert machine.cores == 2
    assert machine.features == {
        "fp-armv8", "neon", "fullfp16", "rdm", "aes", "sha2", "crc", "lse", "rcpc",
    }, "the second core has no dotprod"  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "processor : 0\nhart : 1\nisa : rv64imafdc\n", "\n\n\n", "flags without colon"]
)
def test_cpuinfo_of_another_kind(text: str) -> None:
    assert cpu.parse_cpuinfo(text) is None


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


CACHE = "sys/devices/system/cpu/cpu0/cache"
CACHE_FILES = {
    f"{CACHE}/index{i}/{name}": text + "\n"
    for i, row in enumerate([("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K")])
    for name, text in zip(("level", "type", "size"), row, strict=True)
}


def test_read_cpu_from_recorded_files(tmp_path: Path) -> None:
    machine = cpu.read_cpu(write(tmp_path, CACHE_FILES | {"proc/cpuinfo": INTEL}), "x86_64")
    assert (machine.l1d, machine.l2, machine.l3) == (48 << 10, 2 << 20, None)
    assert "avx512vnni" in machine.features


@pytest.mark.parametrize(
    ("machine", "features"),
    [("arm64", {"neon", "fp-armv8"}), ("AMD64", {"sse", "sse2"}), ("riscv64", set()), ("", set())],
)
def test_read_cpu_without_proc(tmp_path: Path, machine: str, features: set[str]) -> None:
    found = cpu.read_cpu(tmp_path, machine)
    assert found.features == features
    assert found.cores >= 1
    assert (found.l1d, found.l2, found.l3) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32K", 32768),
        ("2M", 2 << 20),
        ("512", 512),
        ("1G", 1 << 30),
        ("", 0),
        ("K", 0),
        ("-1K", 0),
        ("many", 0),
    ],
)
def test_cache_size(text: str, size: int) -> None:
    assert cpu.parse_size(text) == size


V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)
QUOTAS = {
    "v2_namespace_root": ("0::/\n", V2_MOUNT, {"/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
    "v2_unlimited": ("0::/\n", V2_MOUNT, {"/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
    "v2_ancestor_is_tighter": (
        "0::/pod/main\n",
        V2_MOUNT,
        {
            "/sys/fs/cgroup/pod/cpu.max": "200000 100000\n",
            "/sys/fs/cgroup/pod/main/cpu.max": "400000 100000\n",
        },
        2.0,
    ),
    "v2_sibling_is_not_ours": ("0::/a\n", V2_MOUNT, {"/sys/fs/cgroup/b/cpu.max": "100000 100000\n"}, None),
    "v2_without_cpu_controller": (
        "0::/user.slice\n",
        V2_MOUNT,
        {"/sys/fs/cgroup/user.slice/pids.max": "9\n"},
        None,
    ),
    "v2_group_outside_the_namespace": (
        "0::/../x\n",
        V2_MOUNT,
        {"/sys/fs/cgroup/cpu.max": "50000 100000\n"},
        0.5,
    ),
    "v1_quota": (
        "5:cpu,cpuacct:/job\n4:memory:/other\n0::/\n",
        V1_MOUNT,
        {
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n",
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        },
        3.0,
    ),
    "v1_minus_one_is_unlimited": (
        "1:cpu:/\n",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n",
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        None,
    ),
    "v1_container_sees_its_group_as_root": (
        "5:cpu,cpuacct:/docker/1f\n",
        V1_MOUNT.replace("0:29 / ", "0:29 /docker/1f "),
        {
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    "cpuset_is_not_cpu": ("3:cpuset:/job\n", V1_MOUNT, {}, None),
    "optional_mount_fields": (
        "0::/\n",
        "30 23 0:26 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw\n",
        {"/sys/fs/cgroup/cpu.max": "100000 100000"},
        1.0,
    ),
    "garbage": ("what\n::\n", "is this - \n30 23\n", {}, None),
    "garbage_in_cpu_max": ("0::/\n", V2_MOUNT, {"/sys/fs/cgroup/cpu.max": "lots 0\n"}, None),
}


@pytest.mark.parametrize(("groups", "mounts", "files", "quota"), QUOTAS.values(), ids=QUOTAS)
def test_cgroup_quota(
    tmp_path: Path, groups: str, mounts: str, files: dict[str, str], quota: float | None
) -> None:
    root = write(tmp_path, {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts} | files)
    assert cpu.cpu_quota(root) == quota


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    assert cpu.cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("affinity", "quota", "cpus"),
    [(8, None, 8), (8, 1.5, 2), (8, 0.2, 1), (2, 16.0, 2), (4, 3.0, 3), (0, None, 1)],
)
def test_allowed(affinity: int, quota: float | None, cpus: int) -> None:
    assert cpu.allowed(affinity, quota) == cpus


def test_fingerprint_tells_processors_apart_and_nothing_else() -> None:
    features = frozenset({"fma", "avx512vnni", "avx2"})
    machine = cpu.Cpu("AuthenticAMD", "AMD  EPYC", "25.17.1", features, 2, 32 << 10, 1 << 20, None)
    assert cpu.fingerprint(machine) == "AMD EPYC 25.17.1 ffccf8d3f668 32K/1024K/?"
    assert cpu.fingerprint(replace(machine, cores=64)) == cpu.fingerprint(machine)
    others = [
        replace(machine, name="AMD EPYC 9655"),
        replace(machine, model="26.2.1"),
        replace(machine, features=machine.features - {"avx512vnni"}),
        replace(machine, l3=32 << 20),
    ]
    assert len({cpu.fingerprint(other) for other in [machine, *others]}) == 5


def test_this_machine() -> None:
    assert cpu.host() is cpu.host()
    assert cpu.host().cores >= 1
    assert cpu.allowed_cpus() >= 1
    assert "\n" not in cpu.fingerprint()


def test_features_are_spelled_as_llvm_spells_them() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    known = binding.get_host_cpu_features()
    present = {name for name, on in known.items() if on}
    if {"sse2", "neon"} & present:
        assert cpu.host().features <= present
    if "sse2" in present:
        assert set(cpu.X86_FEATURES.values()) <= set(known)


def test_import_loads_no_compiler() -> None:
    code = (
        "import sys, softneuro.cpu; print(sorted({'numpy', 'numba', 'llvmlite', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
