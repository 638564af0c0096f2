"""What people expect of a program at a shell: pipes, colours, completion, quiet libraries, exit codes. Real processes."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import softneuro
from softneuro.cli import completion
from softneuro.cli.main import COMMANDS, build_parser, main
from softneuro.cli.spelling import did_you_mean
from tests.cli_harness import Bench, Capture, picture

ROOT = Path(__file__).parent.parent
SEPARATOR = "\013"
FRAMES = "┏┃┡│└├"


def environment(**changes: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return plain | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | changes


def python(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment(**changes))


def softneuro_command(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "softneuro", *arguments, **changes)


def in_terminal(arguments: Iterable[object], **changes: str) -> str:
    """What the command writes when its output is a terminal."""
    pty = pytest.importorskip("pty")
    lead, follow = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "softneuro", *map(str, arguments)], stdout=follow, stderr=follow, env=environment(**changes)
    )
    os.close(follow)
    pieces = []
    try:
        while piece := os.read(lead, 4096):
            pieces.append(piece)
    except OSError:  # how a terminal's other end says that nobody is left
        pass
    finally:
        os.close(lead)
        process.wait()
    return b"".join(pieces).decode()


# ---- the program


def test_the_module_is_the_program() -> None:
    found = softneuro_command("--version")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"softneuro {softneuro.__version__}\n", "")


def test_no_command_is_a_usage_error() -> None:
    found = softneuro_command()
    assert found.returncode == 2 and found.stdout == ""
    usage, error = found.stderr.splitlines()
    assert usage == "usage: softneuro [-h] [--version] command ..."
    assert error == f"softneuro: error: found no command, needed one of {', '.join(COMMANDS)} (softneuro --help says more)"


@pytest.mark.parametrize(("line", "message"), [
    ("prfile a.plan", "found command 'prfile', did you mean 'profile'?"),
    ("xyzzy", f"found command 'xyzzy', needed one of {', '.join(COMMANDS)}"),
    ("run a.plan --treads=2", "found '--treads=2', did you mean '--threads'?"),
    ("run a.plan --xyzzy", "found '--xyzzy', which 'run' does not have: see softneuro run --help"),
    ("--debug run a.plan", "found '--debug', needed after 'run'"),
    ("demo b.plan", "found 'b.plan', which is one argument too many for 'demo'"),
])  # fmt: skip
def test_misspelt_words_are_named(capsys: Capture, line: str, message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("usage: softneuro") and printed.err.endswith(f"error: {message}\n")


def test_dashes_alone_make_no_suggestion() -> None:
    assert did_you_mean("--zorg", ["--force", "--json"]) == ""
    assert did_you_mean("--jsom", ["--force", "--json"]) == ", did you mean '--json'?"


def test_all_files_of_the_package_are_installed() -> None:
    """What is no module must be listed as package data, or an installed program lacks it."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    listed = {path for package, patterns in data.items() for pattern in patterns
              for path in (ROOT / package.replace(".", "/")).glob(pattern)}  # fmt: skip
    files = {path for path in (ROOT / "softneuro").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files == listed


# ---- pipes and terminals


def test_piped_output_is_plain_text(bench: Bench) -> None:
    found = softneuro_command("profile", bench.plan, "--repeat", "1")
    assert found.returncode == 0 and len(found.stdout.splitlines()) > 4
    assert "\x1b" not in found.stdout + found.stderr and not set(FRAMES) & set(found.stdout)


def test_a_terminal_gets_a_table_that_fits(bench: Bench) -> None:
    printed = in_terminal(["profile", bench.plan, "--repeat", "1", "-q"], COLUMNS="70")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed).splitlines()
    table = [line for line in lines if line and line[0] in FRAMES]
    assert len(table) > 4 and max(map(len, table)) <= 70


def test_no_color_means_none(bench: Bench) -> None:
    absent = bench.plan.with_name("absent.plan")
    assert re.search(r"\x1b\[[0-9;]*31m", in_terminal(["run", absent]))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", in_terminal(["run", absent], NO_COLOR="1"))


@pytest.mark.parametrize("arguments", [("--help",), ("profile", "PLAN", "--repeat", "1")], ids=["help", "table"])
def test_a_reader_that_leaves_is_no_error(bench: Bench, arguments: tuple[str, ...]) -> None:
    words = [str(bench.plan) if word == "PLAN" else word for word in arguments]
    read, write = os.pipe()
    os.close(read)
    try:
        found = subprocess.run(
            [sys.executable, "-m", "softneuro", *words], stdout=write, stderr=subprocess.PIPE, text=True, env=environment()
        )
    finally:
        os.close(write)
    assert found.returncode == 0
    assert "Traceback" not in found.stderr and "BrokenPipe" not in found.stderr


def test_files_are_written_though_the_reader_left(bench: Bench, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "softneuro", "run", str(bench.plan), "--output", str(tmp_path / "out")]
        found = subprocess.run(command, stdout=write, stderr=subprocess.DEVNULL, env=environment())
    finally:
        os.close(write)
    assert found.returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["y.npy"]


# ---- completion

BASH_WORD_BREAKS = " \t\n\"'><=;|&(:"


def completions(line: str, folder: Path, program: tuple[str, ...] = ("-m", "softneuro"), start: int = 1) -> set[str]:
    """What the shell is told when Tab is pressed at the end of the line: argcomplete's protocol, by file in place of
    descriptor 8."""
    answer = folder.with_name(f"{folder.name}.answer")
    asked = {
        "_ARGCOMPLETE": str(start), "_ARGCOMPLETE_IFS": SEPARATOR, "_ARGCOMPLETE_COMP_WORDBREAKS": BASH_WORD_BREAKS,
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "COMP_LINE": line, "COMP_POINT": str(len(line)),
    }  # fmt: skip
    found = subprocess.run([sys.executable, *program], capture_output=True, text=True, cwd=folder, env=environment(**asked))
    assert found.stdout == ""
    text = answer.read_text()
    answer.unlink()
    return {word.rstrip() for word in text.split(SEPARATOR) if word}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.plan", "ab.onnx", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "abc").mkdir()
    (tmp_path / "abc" / "deep.plan").touch()
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), [
    ("softneuro ", {"-h", "--help", "--version", *COMMANDS}),
    ("softneuro run a.plan --thr", {"--threads"}),
    ("softneuro run a", {"a.plan", "ab.onnx", "abc/"}),
    ("softneuro run a.plan --input x=ab", {"ab.onnx", "abc/"}),
], ids=["commands", "option", "files", "named_file"])  # fmt: skip
def test_tab_completes(folder: Path, line: str, expected: set[str]) -> None:
    pytest.importorskip("argcomplete")
    assert completions(line, folder) == expected


def test_tab_completes_the_module(folder: Path) -> None:
    pytest.importorskip("argcomplete")
    assert completions("python -m softneuro dem", folder, start=3) == {"demo"}


def test_shells_find_the_marker_where_they_look() -> None:
    """In the module that ``python -m`` runs, and in the one that the installed script imports."""
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["softneuro"]
    for module in ("softneuro.__main__", script.partition(":")[0]):
        source = inspect.getsource(importlib.import_module(module))
        assert "PYTHON_ARGCOMPLETE_OK" in source[:1024], module


def test_completion_does_nothing_without_argcomplete(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    completion.complete(build_parser()[0])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("line", "start", "expected"), [
    ("softneuro ", "1", []),
    ("softneuro ru", "1", []),
    ("softneuro run", "1", []),
    ("softneuro run ", "1", ["run"]),
    ("softneuro run a.plan --th", "1", ["run", "a.plan"]),
    ("python -m softneuro run a", "3", ["run"]),
    ("softneuro run a", "", None),
])  # fmt: skip
def test_whole_words_so_far(monkeypatch: pytest.MonkeyPatch, line: str, start: str, expected: list[str] | None) -> None:
    for name, value in {"_ARGCOMPLETE": start, "COMP_LINE": line + " after", "COMP_POINT": str(len(line))}.items():
        monkeypatch.setenv(name, value)
    assert completion.words_to_complete() == expected


def test_only_the_command_that_is_named_is_imported() -> None:
    code = "import sys; from softneuro.cli.main import build_parser; build_parser({}); print('numpy' in sys.modules)"
    assert python("-c", code.format([])).stdout == "False\n"
    assert python("-c", code.format(["run"])).stdout == "True\n"


@pytest.mark.parametrize(("command", "argument", "prefix", "expected"), [
    ("run", "plan", "a", ["a.plan", "ab.onnx", "abc/"]),
    ("run", "plan", "abc/", ["abc/deep.plan"]),
    ("run", "plan", ".h", [".hidden"]),
    ("run", "plan", "absent/x", []),
    ("run", "--threads", "", []),
    ("run", "--input", "ab", ["ab.onnx", "abc/"]),
    ("run", "--input", "x=ab", ["x=ab.onnx", "x=abc/"]),
    ("tune", "--limit", "no", ["nodes="]),
    ("compare", "--against", "o", ["onnxruntime", "openvino"]),
    ("compare", "--against", "a.", ["a.plan"]),
    ("bench", "--against", "onnxruntime,n", ["onnxruntime,ncnn"]),
    ("bench", "--against", "onnxruntime,", ["onnxruntime,openvino", "onnxruntime,ncnn"]),
    ("bench", "--against", "a", []),
])  # fmt: skip
def test_values_complete(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, argument: str, prefix: str,
                         expected: list[str]) -> None:
    monkeypatch.chdir(folder)
    actions = build_parser()[1][command]._actions
    (action,) = [action for action in actions if argument in (*action.option_strings, action.dest)]
    assert list(completion._completer(action)(prefix=prefix, action=action)) == expected


def test_every_path_completes_to_files() -> None:
    for name, command in build_parser()[1].items():
        for action in command._actions:
            if action.type is Path or "FILE" in str(action.metavar):
                found = list(completion._completer(action)(prefix=str(ROOT / "pyproj"), action=action))
                assert found == [str(ROOT / "pyproject.toml")], (name, action.dest)


# ---- the library

QUIET = """
import logging, sys
import numpy as np
import softneuro
from dataclasses import replace
plan = softneuro.tune({model!r}, threads=1, time_limit=0.2)
foreign = replace(plan, provenance=replace(plan.provenance, target="elsewhere"))
softneuro.Session(foreign).run({{"x": np.ones((1, 3, 6, 5), np.float32)}})
"""
LOUD = "import logging; logging.basicConfig(level=logging.WARNING)" + QUIET


def test_the_library_prints_nothing(bench: Bench) -> None:
    found = python("-c", QUIET.format(model=str(bench.model)))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_program_that_listens_hears_the_warnings(bench: Bench) -> None:
    found = python("-c", LOUD.format(model=str(bench.model)))
    assert found.stdout == ""
    assert found.stderr.startswith("WARNING:softneuro.runtime.session:the plan was tuned for elsewhere and runs on ")


def test_loggers_are_named_after_modules() -> None:
    """So that ``logging.getLogger("softneuro")`` rules all of them."""
    for path in (ROOT / "softneuro").rglob("*.py"):
        for name in re.findall(r"getLogger\((.*?)\)", path.read_text()):
            assert name in ("__name__", '"softneuro"'), path


def test_warnings_reach_the_person_at_the_shell(bench: Bench, tmp_path: Path) -> None:
    plan = softneuro.Plan.load(bench.plan)
    replace(plan, provenance=replace(plan.provenance, target="elsewhere")).save(tmp_path / "foreign.plan")
    np.save(tmp_path / "x.npy", picture())
    arguments = ["run", str(tmp_path / "foreign.plan"), "--input", str(tmp_path / "x.npy")]
    assert "tuning the model again here" in softneuro_command(*arguments).stderr
    assert softneuro_command(*arguments, "-q").stderr == ""
