"""What doctor looks at: recorded machines, cache folders, the self-check, and the findings for each thing that is wrong."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softneuro.codegen import target as targets
from softneuro.cpu import Cpu
from softneuro.doctor import diagnosis as diagnoses
from softneuro.doctor import findings, selfcheck
from softneuro.doctor.cache import Cache, clean_cache, read_cache
from softneuro.doctor.diagnosis import Diagnosis, Noise, noise_of, target_reason
from softneuro.doctor.machine import Machine, read_machine
from softneuro.doctor.selfcheck import SelfCheck, self_check
from softneuro.errors import CompileError, InputError
from softneuro.tuning.peak import Peak

GIB = 1 << 30
HEX = "0123456789abcdef01234567"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


# ---- the machine


def test_nothing_can_be_read(tmp_path: Path) -> None:
    found = read_machine(tmp_path, 3, 2, 0)
    assert (found.affinity, found.allowed, found.quota, found.smt, found.virtual) == (3, 2, None, None, None)
    assert (found.governor, found.max_mhz, found.huge_pages, found.load) == (None, None, None, None)
    assert (found.memory_total, found.memory_available, found.memory_limit) == (None, None, None)


def test_recorded_machine(tmp_path: Path) -> None:
    found = read_machine(write(tmp_path, {
        "proc/cpuinfo": "processor : 0\nflags : fpu hypervisor sse\n\nprocessor : 1\nflags : fpu hypervisor sse",
        "proc/meminfo": "MemTotal:  16384 kB\nMemFree: 1 kB\nMemAvailable:   8192 kB\nHugePages_Total: 0\nodd",
        "proc/loadavg": "1.25 0.9 0.5 2/300 1234",
        "proc/self/cgroup": "0::/job",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "sys/fs/cgroup/job/memory.max": "4194304",
        "sys/fs/cgroup/memory.max": "max",
        "sys/fs/cgroup/job/cpu.max": "150000 100000",
        "sys/devices/system/cpu/smt/active": "1",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3500000",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    }), 2, 2, 1)  # fmt: skip
    assert found == Machine(
        cpus=2, affinity=2, quota=1.5, allowed=2, smt=True, virtual=True, governor="powersave", max_mhz=3500.0,
        huge_pages="madvise", memory_total=16 << 20, memory_available=8 << 20, memory_limit=4 << 20, load=1.25,
    )  # fmt: skip


@pytest.mark.parametrize(("files", "smt", "virtual"), [
    ({"proc/cpuinfo": "processor : 0\nflags : fpu\n\nprocessor : 1\nflags : fpu"}, True, False),
    ({"proc/cpuinfo": "processor : 0\nflags : fpu", "sys/devices/system/cpu/smt/active": "0"}, False, False),
    ({"proc/cpuinfo": "processor : 0\nFeatures : asimd", "sys/hypervisor/type": "xen"}, False, True),
    ({"proc/cpuinfo": "processor : 0\nFeatures : asimd", "sys/devices/system/cpu/smt/active": "notimplemented"}, False, None),
], ids=["more_cpus_than_cores", "smt_is_off", "xen_on_arm", "unknown_on_arm"])  # fmt: skip
def test_smt_and_virtual(tmp_path: Path, files: dict[str, str], smt: bool, virtual: bool | None) -> None:
    found = read_machine(write(tmp_path, files), 1, 1, 1)
    assert (found.smt, found.virtual) == (smt, virtual)


# ---- the cache


def test_cache_that_is_not_there(tmp_path: Path) -> None:
    assert read_cache(tmp_path / "a" / "b") == Cache(str(tmp_path / "a" / "b"), 0, 0, True)
    assert clean_cache(tmp_path / "a" / "b") == (0, 0)


def test_only_what_softneuro_wrote_is_removed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "objects", tmp_path / "outside.o"
    folder.mkdir()
    outside.write_bytes(b"precious")
    gone = next(number for number in itertools.count(400_000) if not Path(f"/proc/{number}").exists())
    ours = {f"sn_igemm_{HEX}.o": b"12345", f"sn_peak_int8_{HEX}.o": b"123", f"sn_igemm_{HEX}.{gone}.5.tmp": b"1"}
    kept = {f"sn_igemm_{HEX}.{os.getpid()}.5.tmp": b"now", "notes.txt": b"mine", f"sn_igemm_{HEX[:-1]}.o": b"short",
            f"sn_igemm_{HEX}.o.bak": b"copy"}  # fmt: skip
    for name, content in {**ours, **kept}.items():
        (folder / name).write_bytes(content)
    (folder / f"sn_link_{HEX}.o").symlink_to(outside)
    (folder / f"sn_folder_{HEX}.o").mkdir()
    assert clean_cache(folder) == (3, 9)
    assert {path.name for path in folder.iterdir()} == {*kept, f"sn_link_{HEX}.o", f"sn_folder_{HEX}.o"}
    assert outside.read_bytes() == b"precious"
    assert clean_cache(folder) == (0, 0)


def test_cache_is_counted(tmp_path: Path) -> None:
    (tmp_path / f"sn_a_{HEX}.o").write_bytes(b"12345")
    (tmp_path / "other.o").write_bytes(b"1")
    assert read_cache(tmp_path) == Cache(str(tmp_path), 1, 5, True)


def test_linked_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / f"sn_a_{HEX}.o").write_bytes(b"1")
    (tmp_path / "objects").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match="is a link"):
        clean_cache(tmp_path / "objects")
    assert (tmp_path / "real" / f"sn_a_{HEX}.o").exists()


def test_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("")
    with pytest.raises(InputError, match="cannot be opened"):
        clean_cache(tmp_path / "objects")
    assert not read_cache(tmp_path / "objects").writable


def test_another_process_removes_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for letter in "ab":
        (tmp_path / f"sn_{letter}_{HEX}.o").write_bytes(b"12")
    names = os.listdir(tmp_path)
    (tmp_path / names[0]).unlink()
    monkeypatch.setattr(os, "listdir", lambda folder: names)
    assert clean_cache(tmp_path) == (1, 2)


def test_kernels_are_compiled_again_after_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from softneuro.codegen.jit import object_code
    from softneuro.codegen.spec import KernelSpec

    monkeypatch.setenv("SOFTNEURO_CACHE", str(tmp_path))
    spec = KernelSpec.of("peak_fma", chains=2)
    before = object_code(spec, targets.baseline())
    files, nbytes = clean_cache(tmp_path / "objects")
    assert files == 1 and nbytes > len(before)
    assert object_code(spec, targets.baseline())


# ---- the self-check


@pytest.mark.parametrize("target", [targets.host(), targets.avx2(), targets.baseline()], ids=lambda t: t.name)
@pytest.mark.parametrize("threads", [1, 2])
def test_self_check(target: targets.Target, threads: int) -> None:
    clock = itertools.count(0, 7)
    found = self_check(target, threads, lambda: next(clock))
    assert found.ok and found.compile_ns == 7 and found.problem == ""
    assert found.difference is not None and found.difference < 1e-5


@pytest.mark.parametrize("error", [CompileError("numba\nrefused"), ImportError("no module"), OSError("no memory"), MemoryError()])
def test_what_breaks_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(selfcheck, "_run", fail)
    found = self_check(targets.baseline(), 1)
    assert not found.ok and found.problem and "\n" not in found.problem


@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf], ids=["off", "nan", "inf"])
def test_wrong_results_are_noticed(monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    monkeypatch.setattr(selfcheck, "_run", lambda *args: (np.array([1.0, wrong]), np.array([1.0, 2.0])))
    found = self_check(targets.baseline(), 1)
    assert not found.ok and "wrong" in found.problem
    assert found.difference is None or found.difference == 0.75


# ---- findings

CPU = Cpu("v", "n", "m", frozenset({"avx2", "fma"}), 4, 32 << 10, 1 << 20, 32 << 20)
MACHINE = Machine(4, 4, None, 4, False, False, "performance", 3000.0, "madvise", 8 * GIB, 4 * GIB, None, 0.1)
WELL = Diagnosis(
    CPU, "f", MACHINE, {"AVX2": True}, "avx2", "because", {"f32": "vfmadd"}, (Peak(1, 10.0, {}), Peak(4, 39.0, {})),
    Noise(9, 0.0, 0.01), dict.fromkeys(("softneuro", "numpy", "onnx", "numba", "llvmlite"), "1"), Cache("c", 0, 0, True),
    SelfCheck(True, 1, 0.0),
)  # fmt: skip


def machine(**change: object) -> Diagnosis:
    return replace(WELL, machine=replace(MACHINE, **change))  # type: ignore[arg-type]


def test_nothing_to_say() -> None:
    assert findings(WELL) == ()
    assert findings(replace(WELL, peaks=(), noise=None)) == ()


@pytest.mark.parametrize(("found", "level", "text", "advice"), [
    (replace(WELL, check=SelfCheck(False, None, None, "boom")), "error", "boom", "report"),
    (replace(WELL, versions={**WELL.versions, "numba": None}), "error", "numba cannot be found", "pip install numba"),
    (replace(WELL, cache=Cache("/ro", 0, 0, False)), "warning", "/ro cannot be written", "SOFTNEURO_CACHE"),
    (replace(WELL, target="sse4"), "warning", "no AVX2", "-cpu host"),
    (replace(WELL, noise=Noise(9, 0.1, 0.4)), "warning", "40% longer", "end other programs"),
    (replace(WELL, peaks=(Peak(1, 10.0, {}), Peak(4, 20.0, {}))), "warning", "4 threads compute only 2.0 times", "fewer threads"),
    (machine(quota=1.5, allowed=2), "warning", "1.5 CPUs, less than the 2 threads", "--threads 1"),
    (machine(quota=0.5, allowed=1), "warning", "0.5 CPUs", "--threads 1"),
    (machine(quota=2.0, allowed=2), "note", "2 of 4 CPUs", "larger quota"),
    (machine(affinity=2, allowed=2), "note", "2 of 4 CPUs", "taskset"),
    (machine(smt=True, cpus=8, affinity=8, allowed=8), "note", "8 threads share 4 cores", "--threads 4"),
    (machine(load=2.0), "warning", "busy: 2.0 CPUs", "nothing else runs"),
    (machine(virtual=True), "note", "virtual machine", "tune again"),
    (machine(governor="powersave"), "note", "powersave", "performance"),
    (machine(memory_available=GIB // 2), "warning", "0.5 GiB", "large models"),
    (machine(memory_limit=GIB // 4), "warning", "0.2 GiB", "large models"),
], ids=["self_check", "package", "cache", "sse4", "noise", "scaling", "quota_between", "quota_below_one", "quota", "affinity",
        "smt", "load", "virtual", "governor", "memory", "memory_limit"])  # fmt: skip
def test_finding(found: Diagnosis, level: str, text: str, advice: str) -> None:
    (finding,) = findings(found)
    assert finding.level == level and text in finding.text and advice in finding.advice


def test_worst_first() -> None:
    bad = replace(machine(virtual=True, load=3.0), check=SelfCheck(False, None, None, "boom"))
    assert [finding.level for finding in findings(bad)] == ["error", "warning", "note"]


# ---- the rest


def test_noise() -> None:
    found = noise_of([100, 100, 110, 100, 200])
    assert (found.runs, found.median) == (5, 0.0)
    assert found.percentile_90 == pytest.approx(0.64)


@pytest.mark.parametrize(("target", "features", "text"), [
    (targets.avx2(), {"avx2", "fma"}, "AVX-512 F, VL, DQ is not"),
    (targets.avx2(), {"avx2", "fma", "avx512f", "avx512vl"}, "AVX-512 DQ is not"),
    (targets.avx2(), {"avx2", "fma", "avx512f", "avx512vl", "avx512dq"}, "AVX2 and FMA: 16 registers"),
    (targets.baseline(), set(), "AVX2 or FMA is missing: 16 registers of 128 bits"),
    (replace(targets.avx2(), name="avx512", vector_bits=512, registers=32), set(), "32 registers of 512 bits"),
    (replace(targets.baseline(), name="neon", registers=32), set(), "32 registers of 128 bits"),
], ids=["avx2", "part_of_avx512", "avx2_by_choice", "sse4", "avx512", "neon"])  # fmt: skip
def test_why_this_target(target: targets.Target, features: set[str], text: str) -> None:
    assert text in target_reason(target, replace(CPU, features=frozenset(features)))


def test_instruction_sets_are_ones_that_are_read() -> None:
    from softneuro.cpu import AARCH64_FEATURES, X86_FEATURES

    assert set(diagnoses.INSTRUCTION_SETS["x86_64"].values()) <= set(X86_FEATURES.values())
    assert set(diagnoses.INSTRUCTION_SETS["aarch64"].values()) <= set(AARCH64_FEATURES.values())


def test_diagnosis_with_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def peak(target: object, threads: int, timer: object, dtypes: object) -> Peak:
        measured.append(threads)
        return Peak(threads, 1.0, {})

    monkeypatch.setattr(diagnoses, "measure_peak", peak)
    monkeypatch.setattr(diagnoses, "steady_times", lambda *args: [10, 11])
    monkeypatch.setattr(diagnoses.cpu, "allowed_cpus", lambda: 2)
    found = diagnoses.diagnose(root=tmp_path)
    assert measured == [1, 2] and [p.threads for p in found.peaks] == [1, 2]
    assert found.noise == Noise(2, pytest.approx(0.05), pytest.approx(0.09))
    assert found.check.ok and found.versions["numba"] and found.versions["llvm"]
    assert set(found.instructions) == {"f32", "bf16", "int8"}
