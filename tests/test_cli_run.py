"""``softneuro run``: files in, files out."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, picture, refused


@pytest.mark.parametrize("name", ["x.npy", "all.npz", "named=x.npy"])
def test_run_reads_files_and_writes_outputs(bench: Bench, tmp_path: Path, capsys: Capture, name: str) -> None:
    np.save(tmp_path / "x.npy", picture())
    np.savez(tmp_path / "all.npz", x=picture())
    given = f"x={tmp_path / 'x.npy'}" if name.startswith("named") else str(tmp_path / name)
    assert main(["run", str(bench.plan), "--input", given, "--output", str(tmp_path / "results")]) == 0
    printed = capsys.readouterr().out
    assert "y: float32 (1, 12)" in printed and "random" not in printed
    found = np.load(tmp_path / "results" / "y.npy")
    np.testing.assert_array_equal(found, softneuro.Session(bench.plan).run({"x": picture()})["y"])


def test_run_makes_random_input_and_says_so(bench: Bench, capsys: Capture) -> None:
    assert main(["run", str(bench.free_plan), "--shape", "x=3x3x6x5", "--repeat", "4", "--seed", "7"]) == 0
    captured = capsys.readouterr()
    printed = captured.out
    assert captured.err == "random input for x (seed 7)\n"
    assert "y: float32 (3, 12)" in printed
    assert "median" in printed and "minimum" in printed


def test_run_does_not_overwrite_without_force(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "y.npy").write_text("precious")
    arguments = ["run", bench.plan, "--output", tmp_path]
    refused(capsys, arguments, "exists already, needed --force to overwrite it")
    assert (tmp_path / "y.npy").read_text() == "precious"
    assert main([*map(str, arguments), "--force"]) == 0
    assert np.load(tmp_path / "y.npy").shape == (1, 12)


def test_a_copied_plan_runs_elsewhere(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(bench.plan, tmp_path / "b.plan")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "b.plan"]) == 0
