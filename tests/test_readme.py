"""The README tells the truth: its code prints what it says, its command lines work, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path

import pytest

import softneuro
from softneuro.cli.main import COMMANDS, main
from softneuro.importer.table import CONVERTERS
from tests.cli_harness import Capture
from tests.pages import README, ROOT, first_code_blocks, python_blocks, run_python, shell_lines, text_of, write_substitutes

TEXT = text_of(README)
RUN_HERE = ("tune", "run", "profile", "inspect", "compare")
"""Commands that are quick enough to run as they stand; of the others the line is parsed (tests/test_docs.py)."""


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder; Python's `tune` uses one thread and measures for half a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softneuro.tune", partial(softneuro.tune, threads=1, time_limit=0.5))


def test_the_first_screen_is_a_sentence_and_two_commands() -> None:
    assert first_code_blocks(TEXT, 2) == ["pip install . && softneuro demo", "pip install '.[test]' && pytest"]
    before = TEXT.partition("    pip install")[0].split("\n\n")
    assert [part.count(". ") for part in before if part.strip()] == [0, 0]
    assert TEXT[: TEXT.index("'.[test]'")].count("\n") < 12


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("code", "printed"), python_blocks(TEXT))
def test_python_prints_what_it_says(code: str, printed: str | None) -> None:
    found = run_python(code)
    assert printed is None or found == printed


def test_the_example_is_six_lines() -> None:
    code, printed = python_blocks(TEXT)[0]
    assert len([line for line in code.splitlines() if line.strip()]) == 6
    assert printed is not None


@pytest.mark.usefixtures("quick")
def test_command_lines_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    write_substitutes(tmp_path)
    (tmp_path / "model.plan").unlink()  # the first line makes it
    ran = []
    for line in shell_lines(TEXT):
        words = shlex.split(line)[1:]
        if words[0] in RUN_HERE:
            assert main(words) == 0, (line, capsys.readouterr().err)
            assert capsys.readouterr().out
            ran.append(words[0])
    assert set(ran) == set(RUN_HERE) & set(COMMANDS)
    assert (tmp_path / "model.plan").exists() and (tmp_path / "results" / "output.npy").exists()


def test_every_command_is_shown() -> None:
    shown = {line.split()[1] for line in shell_lines(TEXT)} | set(re.findall(r"&& softneuro (\w+)", TEXT))
    assert shown == set(COMMANDS)


def test_operators_that_are_named_exist() -> None:
    section = TEXT.partition("**Native operators**")[2].partition("* **CPUs**")[0]
    named = re.findall(r"`(\w+)`", section)
    assert len(named) > 30
    assert [name for name in named if ("", name) not in CONVERTERS] == []


def test_extras_that_are_named_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in re.findall(r"'\.\[(\w+)\]'", TEXT):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_tools_that_are_named_exist() -> None:
    named = re.findall(r"^    python (tools/\w+\.py)", TEXT, re.MULTILINE)
    assert named and all((ROOT / path).is_file() for path in named)
