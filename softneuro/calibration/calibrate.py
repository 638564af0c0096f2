"""From a graph and samples to the calibration table."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from softneuro import cpu
from softneuro.calibration.clamps import clamps
from softneuro.calibration.histogram import Histogram, Spread
from softneuro.calibration.ranges import METHODS, Range, chosen_range, relative_error
from softneuro.calibration.samples import Sample, Samples
from softneuro.calibration.statistics import observe
from softneuro.calibration.table import CalibrationTable
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.graph import Graph

__all__ = ["CalibrationProgress", "calibrated"]

CalibrationProgress = Callable[[int, int, str], None]
"""Called with the number of samples that are done, how many there are at most, and what is at hand."""

_log = logging.getLogger(__name__)
_UNUSUAL = "has NaN or infinite numbers"
_EMPTY = "has no elements"


def calibrated(graph: Graph, samples: Samples | Sequence[Sample], *, method: str | None = None, threads: int | None = None,
               target: Target | None = None, progress: CalibrationProgress = lambda done, most, what: None) -> CalibrationTable:
    """The ranges of all float32 tensors that layers make or the graph takes, and of no constants.

    graph: as it will run, after the passes. method: one of `METHODS`, None for the best of each tensor. Tensors that were NaN
    or infinite in some sample are left out: they stay floats. The result depends on the samples alone, neither on their order
    nor on the number of threads. Raises InputError for an unknown method, for samples that do not fit and for none.
    """
    if method is not None and method not in METHODS:
        raise InputError(f"method: found {method!r}, needed one of {', '.join(METHODS)}")
    most = samples.most if isinstance(samples, Samples) else len(samples)
    seen = observe(graph, samples, threads=threads or cpu.allowed_cpus(), target=target,
                   progress=lambda done, what: progress(done, most, what))  # fmt: skip
    bounds = clamps(graph)
    spreads: dict[str, Spread] = {}
    ranges: dict[str, Range] = {}
    left_out: dict[str, str] = {}
    for name, histogram in seen.histograms.items():
        reason = _reason_against(histogram)
        if reason:
            left_out[name] = reason
        else:
            spreads[name] = histogram.spread().clamped(*bounds.get(name, (-math.inf, math.inf)))
            ranges[name] = chosen_range(spreads[name], method)
    if left_out:
        _log.warning("%d of %d tensors stay floats: %s", len(left_out), len(seen.histograms),
                     ", ".join(f"{name!r} {reason}" for name, reason in list(left_out.items())[:4]))
    return _with_shared_errors(CalibrationTable(ranges, left_out, seen.samples).shared(graph), ranges, spreads)


def _with_shared_errors(table: CalibrationTable, own: Mapping[str, Range], spreads: Mapping[str, Spread]) -> CalibrationTable:
    """The table with the errors of the ranges that tensors share in place of those of the ranges that they had."""
    ranges = {
        name: found if found == own[name] else replace(found, error=relative_error(spreads[name], found.low, found.high))
        for name, found in table.ranges.items()
    }
    return replace(table, ranges=ranges)


def _reason_against(histogram: Histogram) -> str:
    if histogram.unusual:
        return _UNUSUAL
    return "" if histogram.count else _EMPTY
