"""``softneuro tune`` that does not come to its end: what is kept, what is said, and how it goes on."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx_build import model as build_model
from onnx_build import normal

import softneuro
from softneuro.__main__ import main as script
from softneuro.cli.main import main
from softneuro.tuning import costs
from softneuro.tuning.measure import Effort
from softneuro.tuning.profile import Profile
from tests.cli_harness import Bench, Capture, refused

ROOT = Path(__file__).parent.parent


def interrupted(monkeypatch: pytest.MonkeyPatch, problems: int, error: BaseException) -> None:
    """Let measuring end with an error after some problems."""
    original, left = costs.measure, [problems]

    def measure(*args: Any, **options: Any) -> None:
        if left[0] == 0:
            raise error
        left[0] -= 1
        original(*args, **{**options, "effort": Effort(blocks=1, short_ns=1, block_ns=1)})

    monkeypatch.setattr(costs, "measure", measure)


def test_an_interruption_says_how_to_go_on(bench: Bench, tmp_path: Path, capsys: Capture,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    plan, kept = tmp_path / "a.plan", tmp_path / "a.plan.measuring"
    arguments = ["tune", str(bench.model), "-o", str(plan), "--threads", "1"]
    with monkeypatch.context() as patch:
        interrupted(patch, 2, KeyboardInterrupt())
        assert main(arguments) == 130
    printed = capsys.readouterr()
    count = kept.read_bytes().count(b"\n")
    assert count > 2 and not plan.exists() and printed.out == ""
    line = printed.err.strip()
    assert line.startswith(f"softneuro tune: interrupted: {count} of ") and f"kept in {kept}; to go on: softneuro tune " in line
    go_on = shlex.split(line.partition("to go on: ")[2])
    assert go_on == ["softneuro", *arguments, "--resume"]

    refused(capsys, arguments, "a.plan.measuring: is left from a tuning that was interrupted: needed --resume to go on")
    assert kept.read_bytes().count(b"\n") == count
    added: list[str] = []
    monkeypatch.setattr(Profile, "add", lambda profile, key, measurement: added.append(key))
    assert main(go_on[1:]) == 0
    assert list(tmp_path.iterdir()) == [plan]
    assert f" of {len(added) + count} candidates" in line, "nothing is measured again"


def test_an_interruption_with_a_profile(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "times.jsonl"
    arguments = ["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--threads", "1", "--profile", str(profile)]
    with monkeypatch.context() as patch:
        interrupted(patch, 1, KeyboardInterrupt())
        assert main(arguments) == 130
    line = capsys.readouterr().err.strip()
    assert line.endswith(f"kept in {profile}; to go on: {shlex.join(['softneuro', *arguments])}")
    assert list(tmp_path.iterdir()) == [profile]
    assert main([*arguments, "--resume"]) == 0


def test_an_interruption_before_anything_was_measured(bench: Bench, tmp_path: Path, capsys: Capture,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 0, KeyboardInterrupt())
    arguments = ["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--threads", "1"]
    assert main(arguments) == 130
    line = capsys.readouterr().err.strip()
    assert "interrupted: nothing was measured yet" in line and line.endswith(shlex.join(["softneuro", *arguments]))
    assert not list(tmp_path.iterdir())


def test_an_error_says_how_to_go_on(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 1, OSError(28, "No space left on device", "somewhere"))
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--threads", "1"]) == 3
    remark, error = capsys.readouterr().err.splitlines()
    assert "a.plan.measuring; to go on: softneuro tune " in remark and remark.endswith(" --resume")
    assert error == "softneuro tune: somewhere: No space left on device"
    assert (tmp_path / "a.plan.measuring").exists()


def test_force_begins_again(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "a.plan.measuring").write_text("rubbish\nrubbish\n")
    assert main(["tune", str(bench.model), "-o", str(tmp_path / "a.plan"), "--effort", "1", "--threads", "1", "--force"]) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "a.plan"]


def test_nothing_to_resume(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    plan = tmp_path / "a.plan"
    assert main(["tune", str(bench.model), "-o", str(plan), "--effort", "1", "--threads", "1", "--resume"]) == 0
    assert capsys.readouterr().err == f"{plan}.measuring: is not there, so tuning begins at the start\n"
    assert list(tmp_path.iterdir()) == [plan]


def chain(path: Path, layers: int) -> Path:
    """A chain of convolutions, each a problem of its own."""
    sizes = range(8, 8 + 4 * layers + 1, 4)
    nodes = [onnx.helper.make_node("Conv", [f"t{i}", f"w{i}"], [f"t{i + 1}"], pads=[1, 1, 1, 1]) for i in range(layers)]
    weights = {f"w{i}": normal(k, c, 3, 3, seed=i) / 9 for i, (c, k) in enumerate(itertools.pairwise(sizes))}
    path.write_bytes(build_model(nodes, {"t0": normal(1, 8, 10, 9)}, [f"t{layers}"], constants=weights).SerializeToString())
    return path


def test_a_real_interruption_and_going_on(tmp_path: Path) -> None:
    model, plan = chain(tmp_path / "model.onnx", 12), tmp_path / "a.plan"
    kept = tmp_path / "a.plan.measuring"
    command = [sys.executable, "-m", "softneuro", "tune", str(model), "-o", str(plan), "--threads", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and (not kept.exists() or kept.read_bytes().count(b"\n") < 3):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "", err
    assert err.startswith("softneuro tune: interrupted: ") and err.count("\n") == 1
    first = kept.read_bytes()
    total = int(err.split(" of ")[1].split()[0])
    assert first.endswith(b"\n") and 3 <= first.count(b"\n") < total and not plan.exists()
    profile = tmp_path / "times.jsonl"
    profile.write_bytes(first)  # to see what goes on
    go_on = [*command, "--profile", str(profile), "--resume"]
    result = subprocess.run(go_on, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr == "" and "measured" in result.stdout
    assert profile.read_bytes().startswith(first) and profile.read_bytes().count(b"\n") == total
    resumed = shlex.split(err.strip().partition("to go on: ")[2])
    assert resumed[0] == "softneuro" and resumed[-1] == "--resume"
    subprocess.run([*command[:3], *resumed[1:], "--force"], cwd=ROOT, capture_output=True, check=True)
    assert not kept.exists() and softneuro.Plan.load(plan).provenance.measured


def test_an_interrupted_compilation_ends_its_processes(tmp_path: Path) -> None:
    """Ctrl-C in a terminal goes to the whole process group."""
    environment = {**os.environ, "SOFTNEURO_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "softneuro", "tune", str(chain(tmp_path / "model.onnx", 2)), "-o", str(tmp_path / "a.plan")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                          process_group=0) as process:  # fmt: skip
        while process.poll() is None and not list((tmp_path / "cache").rglob("*.o")):
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)  # ends when nobody has standard error open any more
    assert process.returncode == 130 and out == ""
    assert err.startswith("softneuro tune: interrupted: nothing was measured yet") and err.count("\n") == 1
    assert not (tmp_path / "a.plan.measuring").exists()


def test_an_interruption_while_modules_are_loaded(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("softneuro.cli.main.main", interrupt)
    assert script() == 130
    assert capsys.readouterr().err == "softneuro: interrupted\n"
