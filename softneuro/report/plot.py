"""A bar chart of where the time of a run goes, for people (matplotlib, which the extra ``plot`` brings)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softneuro.errors import InputError, NotInstalled
from softneuro.report.profiled import Profiled
from softneuro.report.rows import ADAPT, HOST, LayerRow, is_free

__all__ = ["PLOT_SUFFIXES", "check_plot", "plot_rows"]

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
_MOST_NAME = 44
_PALETTE = ("#4477aa", "#66ccee", "#228833", "#aa3377", "#332288", "#88ccee", "#999933", "#117733", "#882255")
_COLOURS = {ADAPT: "#ee7733", HOST: "#cc3311"}
_GREY = "#777777"


def check_plot(path: Path) -> None:
    """Raise InputError for a file name of another kind than PLOT_SUFFIXES, NotInstalled without matplotlib."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(f"{path}: found the suffix {path.suffix!r}, needed one of {', '.join(PLOT_SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise NotInstalled(f"{path}: a plot needs matplotlib: pip install 'softneuro[plot]'") from error


def plot_rows(found: Profiled, rows: Sequence[LayerRow], path: Path) -> None:
    """Write a chart of the rows, the first on top: a bar for each, coloured by its op, what tuning predicted as a mark.

    Raises as `check_plot` does, and OSError when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.6 + 0.3 * max(len(rows), 3)), layout="constrained")
    axes = figure.add_subplot()
    _bars(axes, rows)
    _predictions(axes, rows)
    _frame(axes, found, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters in names that the font lacks
        figure.savefig(path, dpi=150, facecolor="white")


def _bars(axes: Any, rows: Sequence[LayerRow]) -> None:
    families = list(dict.fromkeys(row.family for row in sorted(rows, key=lambda row: -row.ns)))
    ops = [family for family in families if family not in _COLOURS]
    colours = {family: _PALETTE[index % len(_PALETTE)] for index, family in enumerate(ops)} | _COLOURS
    for family in families:
        places = [index for index, row in enumerate(rows) if row.family == family]
        axes.barh(places, [rows[index].ns / 1e6 for index in places], height=0.72, color=colours[family], label=family)
    widest = max(max(row.ns, row.predicted_ns or 0.0) for row in rows) / 1e6 if rows else 1.0
    for index, row in enumerate(rows):
        end = max(row.ns, row.predicted_ns or 0.0) / 1e6
        axes.text(end + 0.012 * widest, index, f"{100 * row.share:.1f}%", va="center", ha="left", fontsize=8, color="#333333")
    axes.set_xlim(0, 1.1 * widest)


def _predictions(axes: Any, rows: Sequence[LayerRow]) -> None:
    marks = [(row.predicted_ns / 1e6, index) for index, row in enumerate(rows) if row.predicted_ns is not None]
    if marks:
        times, places = zip(*marks, strict=True)
        axes.scatter(times, places, marker="|", s=110, linewidths=2, color="black", zorder=3, label="predicted by tuning")


def _frame(axes: Any, found: Profiled, rows: Sequence[LayerRow]) -> None:
    axes.set_yticks(range(len(rows)), [f"{_short(row.name)}\n{row.routine}" for row in rows], parse_math=False)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("milliseconds")
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    share = f"{100 * sum(row.share for row in rows):.0f}%"
    every = sum(1 for row in found.rows if not is_free(row))
    what = f"its {every} rows" if len(rows) == every else f"the {len(rows)} slowest of {every} rows take {share}"
    title = f"{found.made.model or 'plan'}: {found.total_ns / 1e6:.3f} ms, {what}"
    axes.set_title(title, loc="left", fontsize=12, pad=20, parse_math=False)
    threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
    about = f"{threads}, {found.target}; % of the total"
    axes.text(0, 1.005, about, transform=axes.transAxes, va="bottom", fontsize=9, color=_GREY)
    if rows:
        axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="#dddddd", fontsize=9)


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"…{name[1 - _MOST_NAME :]}"
