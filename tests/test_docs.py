"""The documentation keeps up with the program: errors, commands, options, links."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import softneuro
from softneuro import errors
from softneuro.cli.main import COMMANDS, build_parser
from tests.pages import PAGES, ROOT, python_blocks, run_python, shell_lines, text_of, write_substitutes

GAP = "…"
DOCS = ROOT / "docs"
TROUBLESHOOTING = text_of(DOCS / "troubleshooting.md")


# ---- troubleshooting


def literal(node: ast.AST) -> str | None:
    """A string of the source, with a gap where a value is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or GAP for part in node.values)
    return None


def messages() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in Path(softneuro.__file__).parent.rglob("*.py"))
    return {found for source in sources for node in ast.walk(ast.parse(source)) if (found := literal(node))}


def quoted() -> Iterator[str]:
    for line in TROUBLESHOOTING.splitlines():
        if line.startswith("| `"):
            yield line.split("`")[1]


def is_raised(quote: str, message: str) -> bool:
    """Whether the quotation is a part of the message; gaps stand for anything, also for nothing."""
    pattern = ".*".join(re.escape(part) for part in quote.split(GAP))
    return re.search(pattern, message, re.DOTALL) is not None


def test_every_message_in_troubleshooting_is_raised() -> None:
    known = messages()
    strays = [quote for quote in quoted() if not any(is_raised(quote, message) for message in known)]
    assert strays == []
    assert len(list(quoted())) > 40


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_explained(name: str) -> None:
    section = re.search(rf"^## {name}\n\n(.*?)(?=^## )", TROUBLESHOOTING, re.DOTALL | re.MULTILINE)
    assert section is not None and "| message |" in section[1]


def test_exit_codes_are_explained() -> None:
    epilog = build_parser()[0].epilog or ""
    codes = re.findall(r"(\d+) [a-z ]+[,\n]?", epilog.rpartition("exit codes:")[2])
    assert codes == re.findall(r"^\| (\d+) \|", TROUBLESHOOTING, re.MULTILINE)


# ---- commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_with_its_options(name: str) -> None:
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text_of(DOCS / "commands.md"), re.DOTALL | re.MULTILINE)
    assert section is not None, name
    assert f"```{{command-options}} {name}\n```" in section[1]
    assert any(line.split()[1] == name for line in shell_lines(section[1]))
    assert "Exit codes" in section[1]


ALL_LINES = [(page.name, line) for page in PAGES for line in shell_lines(text_of(page))]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_left_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS))
    groups = importlib.import_module("command_options").groups
    command = build_parser()[1][name]
    written = "\n".join(node.astext() for node in groups(command))
    for action in command._actions:
        assert all(option in written for option in action.option_strings or [action.metavar or action.dest])
        assert (action.help or "").partition("%")[0] in written


@pytest.mark.parametrize(("page", "line"), ALL_LINES, ids=[f"{page}-{index}" for index, (page, _) in enumerate(ALL_LINES)])
def test_every_command_line_in_the_pages_is_understood(page: str, line: str) -> None:
    words = shlex.split(line.removeprefix("python -m "))[1:]
    try:
        build_parser()[0].parse_args(words)
    except SystemExit as ended:
        assert ended.code == 0, line


def test_there_are_command_lines_to_check() -> None:
    assert {page for page, _ in ALL_LINES} >= {"README.md", "commands.md", "getting-started.md", "tuning-guide.md"}


def options_of(command: argparse.ArgumentParser) -> set[str]:
    return {option for action in command._actions for option in action.option_strings}


def test_options_named_in_the_pages_exist() -> None:
    """`--name` in running text is an option of some command here, or of a program that the page names."""
    known = set().union(*map(options_of, build_parser()[1].values())) | {"--version"}
    foreign = {"--threads"}
    for page in PAGES:
        prose = re.sub(r"^```.*?^```|^    .*$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
        named = {word for span in re.findall(r"`([^`]+)`", prose) if "softneuro" in span or span.startswith("-")
                 for word in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}  # fmt: skip
        assert named <= known | foreign, (page.name, named - known)


# ---- code


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == DOCS and python_blocks(text_of(page))],
                         ids=lambda page: page.name)
def test_python_in_the_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softneuro.tune", partial(softneuro.tune, threads=1, time_limit=0.2))
    write_substitutes(tmp_path)
    image.new("RGB", (30, 20), "red").save(tmp_path / "cat.jpg")
    for code, printed in python_blocks(text_of(page)):
        found = run_python(code)
        assert printed is None or found == printed


# ---- links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        linked = page if not path else page.parent / path
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text_of(linked), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, target


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"^([A-Za-z-]+)$", text_of(DOCS / "index.md"), re.MULTILINE))
    assert listed == {path.stem for path in DOCS.glob("*.md")} - {"index"}


def test_every_part_of_the_package_is_on_the_map() -> None:
    parts = [path for path in Path(softneuro.__file__).parent.iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"]
    named = set(re.findall(r"`([a-z_]+(?:/|\.py))", text_of(DOCS / "ARCHITECTURE.md")))
    assert {path.name + "/" * path.is_dir() for path in parts} <= named
