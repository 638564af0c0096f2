"""Tables that give up columns for narrow terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from softneuro.cli.columns import STAYS, Column, print_columns, shortened
from softneuro.cli.units import unit_for

ROWS = [
    Column("layer", ["/features/0/Conv", "/features/1/Conv"], STAYS),
    Column("shapes", ["1x3x224x224 -> 1x32x112x112", "1x32x112x112 -> 1x16x112x112"], 3),
    Column("empty", ["", ""], 8),
    Column("ms", ["0.1000", "12.0000"], STAYS, True),
    Column("share", ["1.0%", "99.0%"], 8, True),
]


def drawn(width: int, terminal: bool = True) -> tuple[str, list[str]]:
    out = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, soft_wrap=True)
    missing = print_columns(out, ROWS, sections=(0,), styles=("", "bold"))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue(), missing


@pytest.mark.parametrize(("width", "missing"), [
    (120, []), (76, []), (60, ["shapes"]), (40, ["shapes"]), (34, ["shapes", "share"]),
])  # fmt: skip
def test_the_least_important_columns_go_first(width: int, missing: list[str]) -> None:
    text, found = drawn(width)
    assert found == missing
    assert all(len(line) <= max(width, 40) for line in text.splitlines())
    assert "empty" not in text and "12.0000" in text


def test_piped_tables_are_whole() -> None:
    text, missing = drawn(1000, terminal=False)
    assert missing == [] and "1x32x112x112 -> 1x16x112x112" in text


@pytest.mark.parametrize(("text", "width", "expected"), [
    ("short", 10, "short"), ("exactly_10", 10, "exactly_10"), ("/features/10/conv/Conv", 12, "/fea…nv/Conv"), ("abc", 2, "a…"),
])  # fmt: skip
def test_long_names_lose_their_middle(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected and len(expected) <= width


@pytest.mark.parametrize(("total", "ns", "number", "text"), [
    (2e6, 1_234_567.0, "1.2346", "1.235 ms"), (1e6, 400.0, "0.0004", "0.000 ms"), (999_999.0, 400.0, "0.400", "0.400 µs"),
    (0.0, 0.0, "0.000", "0.000 µs"),
])  # fmt: skip
def test_times_have_one_unit_in_a_table(total: float, ns: float, number: str, text: str) -> None:
    unit = unit_for(total)
    assert unit.number(ns) == number and unit.text(ns) == text and unit.number(None) == ""
