"""The parser, help texts, and errors turned into exit codes."""

from __future__ import annotations

import importlib
from pathlib import Path

import onnx
import pytest

import softneuro
from softneuro.cli.main import COMMANDS, main
from tests.cli_harness import Bench, Capture, refused, write_model

EXAMPLES = {name: importlib.import_module(f"softneuro.cli.{name}").EXAMPLE for name in COMMANDS}


def test_names_with_brackets_are_printed_whole(tmp_path: Path, capsys: Capture) -> None:
    proto = onnx.load(write_model(tmp_path / "a.onnx"))
    proto.graph.node[-1].output[0] = proto.graph.output[0].name = "[red]y[/red]"
    onnx.save(proto, tmp_path / "a.onnx")
    softneuro.tune(tmp_path / "a.onnx", threads=1, time_limit=0).save(tmp_path / "a.plan")
    assert main(["run", str(tmp_path / "a.plan"), "--output", str(tmp_path)]) == 0
    assert main(["compare", str(tmp_path / "a.plan"), "--against", str(tmp_path / "a.plan")]) == 0
    assert capsys.readouterr().out.count("[red]y[/red]") == 3  # a row and the largest classes of run, a row of compare
    assert (tmp_path / "_red_y__red_.npy").exists()


def test_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"softneuro {softneuro.__version__}\n"


def test_help_lists_the_commands_with_examples(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name, example in EXAMPLES.items():
        assert f"  {example}\n" in printed
        assert f"    {name} " in printed
    assert "exit codes" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_its_example(capsys: Capture, name: str) -> None:
    assert EXAMPLES[name].split()[:2] == ["softneuro", name]
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert EXAMPLES[name] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("line", [
    "", "frobnicate", "tune", "tune model.onnx", "run", "run a.plan --threads 0", "run a.plan --threads 5000",
    "run a.plan --repeat many", "run a.plan --seed -1", "run a.plan --shape x", "run a.plan --shape x=1x-2",
    "run a.plan --shape x=1000000x1000000x1000000", "tune a.onnx -o a.plan --time-limit -1",
    "tune a.onnx -o a.plan --time-limit nan", "run a.plan --unknown",
])  # fmt: skip
def test_usage_errors(capsys: Capture, line: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("usage: softneuro")


def test_debug_shows_where(tmp_path: Path) -> None:
    with pytest.raises(softneuro.errors.PlanError):
        main(["run", "--debug", str(tmp_path / "absent.plan")])


def test_too_little_memory_is_not_bad_input(bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*args: object) -> None:
        raise MemoryError("needed 1 TB\nat once")

    monkeypatch.setattr("softneuro.cli.inputs.Session", starve)
    refused(capsys, ["run", bench.plan], "needed 1 TB at once", code=4)
