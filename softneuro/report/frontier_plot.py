"""The frontier between speed and accuracy as a picture (matplotlib, which the extra ``plot`` brings)."""

from __future__ import annotations

from pathlib import Path

from softneuro.plan.plan import Provenance
from softneuro.report.plot import check_plot

__all__ = ["plot_frontier"]


def plot_frontier(made: Provenance, path: Path) -> None:
    """Write a chart of what outputs lose against the predicted time, the kept plan marked, each point with its bytes of weights.

    Raises as `check_plot` does, and OSError when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    times = [point.ns / 1e6 for point in made.frontier]
    losses = [point.loss for point in made.frontier]
    axes.plot(times, losses, marker="o", color="#4477aa", drawstyle="steps-post", label="fastest for its loss")
    for point in made.frontier:
        axes.annotate(f"{point.nbytes / 1e6:.1f} MB", (point.ns / 1e6, point.loss), textcoords="offset points", xytext=(5, 5),
                      fontsize=8, color="#777777")  # fmt: skip
    if made.loss is not None and made.predicted_ns is not None:
        axes.plot([made.predicted_ns / 1e6], [made.loss], marker="*", markersize=15, color="#cc3311", linestyle="", label="kept")
    axes.set_xlabel("predicted ms of one inference")
    axes.set_ylabel("loss on the samples")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{made.model or 'model'}: {made.budget}", fontsize=10)
    axes.legend()
    figure.savefig(path, dpi=150, facecolor="white")
