"""``softneuro doctor``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from softneuro.cli import doctor
from softneuro.cli.main import main
from softneuro.doctor.selfcheck import SelfCheck
from softneuro.tuning.peak import LEVELS, Peak
from tests.cli_harness import Capture, refused
from tests.test_doctor import HEX, WELL, machine

READS = dict.fromkeys(LEVELS, 12.3)
MEASURED = replace(
    WELL, peaks=(Peak(1, 100.0, READS, {"int8": 400.0}), Peak(4, 390.0, READS, {"int8": 1600.0})),
    instructions={"f32": "vfmadd", "bf16": "no instruction", "int8": "vpdpbusd"},
)  # fmt: skip


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A diagnosis that costs nothing; the list collects whether measuring was asked for."""
    asked: list[bool] = []
    monkeypatch.setattr(doctor, "diagnose", lambda measure: asked.append(measure) or MEASURED)
    return asked


def test_prints_everything(well: list[bool], capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr()
    assert well == [True] and "measuring" in printed.err
    lines = {line.split("  ")[0]: line for line in printed.out.splitlines()}
    assert lines["f32 GFLOP/s"].split() == ["f32", "GFLOP/s", "100", "390", "vfmadd"]
    assert lines["bf16 GFLOP/s"].split() == ["bf16", "GFLOP/s", "-", "-", "no", "instruction"]
    assert lines["int8 GOP/s"].split() == ["int8", "GOP/s", "400", "1600", "vpdpbusd"]
    assert lines["DRAM GB/s"].split()[2:4] == ["12", "12"]
    assert "kernels for   avx2: because" in printed.out
    assert "self-check    ok" in printed.out
    assert printed.out.splitlines()[-1] == "softneuro works here"


def test_json(well: list[bool], capsys: Capture) -> None:
    assert main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["peaks"][1] == {"threads": 4, "f32_gflops": 390.0, "bf16_gflops": None, "int8_gops": 1600.0, "read_gbps": READS}
    assert data["cpu"]["l1d_bytes"] == 32 << 10 and data["cpu"]["features"] == ["avx2", "fma"]
    assert data["machine"]["memory_total_bytes"] == 8 << 30 and data["cache"]["bytes"] == 0
    assert data["check"]["ok"] is True and data["findings"] == []


def test_findings_and_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda measure: replace(machine(load=3.0), peaks=()))
    assert main(["doctor", "-q"]) == 0
    printed = capsys.readouterr()
    assert "warning: the machine is busy" in printed.out and printed.err == ""
    monkeypatch.setattr(doctor, "diagnose", lambda measure: replace(WELL, peaks=(), check=SelfCheck(False, None, None, "boom")))
    assert main(["doctor"]) == 4
    printed = capsys.readouterr()
    assert "self-check    failed: boom" in printed.out and printed.out.splitlines()[-1] == "softneuro cannot work here"


def test_this_machine_without_measuring(capsys: Capture) -> None:
    assert main(["doctor", "--no-measure", "--json"]) == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    assert printed.err == "" and data["peaks"] == [] and data["noise"] is None
    assert data["check"]["ok"] and data["machine"]["allowed"] >= 1
    assert main(["doctor", "--no-measure"]) == 0
    assert "GFLOP/s" not in capsys.readouterr().out


def test_clean_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("SOFTNEURO_CACHE", str(tmp_path))
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / f"sn_a_{HEX}.o").write_bytes(b"12345")
    (folder / "other").write_bytes(b"1")
    assert main(["doctor", "--clean-cache"]) == 0
    assert capsys.readouterr().out == f"{folder}: removed 1 file, 5 bytes\n"
    assert [path.name for path in folder.iterdir()] == ["other"]
    assert main(["doctor", "--clean-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "removed_files": 0, "removed_bytes": 0}


def test_linked_cache_is_not_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("SOFTNEURO_CACHE", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "objects").symlink_to(tmp_path / "real")
    refused(capsys, ["doctor", "--clean-cache"], "is a link")
