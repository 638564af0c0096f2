"""Tables that give up columns, the least important first, until they fit the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from softneuro.cli.console import print_table, remarks

__all__ = ["STAYS", "Column", "print_columns", "say_missing", "shortened"]

_LEAST_NAME = 18
STAYS = 9


@dataclass(frozen=True)
class Column:
    """A column's title and texts, a row each. worth: columns of the least worth are left out first, those of STAYS never.
    number: to the right."""

    title: str
    texts: Sequence[str]
    worth: int
    number: bool = False

    @property
    def width(self) -> int:
        """Characters of its widest text."""
        return max(map(len, (self.title, *self.texts)))


def print_columns(out: Console, columns: Sequence[Column], *, sections: Sequence[int] = (),
                  styles: Sequence[str] = (), first_width: int = 0) -> list[str]:
    """Print a table of columns with equally many texts; returns the titles of those there was no room for.

    Empty columns are left out. On a terminal the first column's texts are shortened in the middle when there is no
    room for them beside columns that stay. sections: rows after which a line is drawn. styles: of each row.
    first_width: characters of the first column that other columns are given up for (by default a third of the terminal).
    """
    shown = [column for column in columns if any(column.texts)]
    kept = _fitting(shown, out.width, first_width) if out.is_terminal else shown
    table = Table()
    for column in kept:
        table.add_column(column.title, justify="right" if column.number else "left", no_wrap=True)
    for index, texts in enumerate(zip(*(column.texts for column in kept), strict=True)):
        style = styles[index] if index < len(styles) else ""
        table.add_row(*texts, style=style or None, end_section=index in sections)
    print_table(out, table)
    titles = {column.title for column in kept}
    return [column.title for column in shown if column.title not in titles]


def say_missing(options: argparse.Namespace, titles: Sequence[str]) -> None:
    """A remark that names the columns there was no room for."""
    if titles:
        remarks(options).print(f"no room for: {', '.join(titles)} (a wider terminal, a pipe or --json shows all)")


def shortened(text: str, width: int) -> str:
    """A text of at most ``width`` characters: what is too long loses its middle, as the end of a name tells most."""
    if len(text) <= width:
        return text
    end = (width - 1) * 2 // 3
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def _fitting(columns: Sequence[Column], width: int, first_width: int) -> list[Column]:
    kept = list(columns)
    name_width = max(_LEAST_NAME, first_width or width // 3)
    while True:
        rest = _needed(kept[1:])
        room = max(_LEAST_NAME, width - rest - 4)
        name = replace(kept[0], texts=[shortened(text, room) for text in kept[0].texts])
        least = min(kept[1:], key=lambda column: column.worth)
        fits = rest + 4 + min(kept[0].width, name_width) <= width
        if fits or least.worth >= STAYS:
            return [name, *kept[1:]]
        kept.remove(least)


def _needed(columns: Sequence[Column]) -> int:
    """Characters that columns take with the lines and blanks around them."""
    return sum(column.width + 3 for column in columns)
