"""What a run gave: the outputs' types, ranges and largest classes, and its times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softneuro.types import Array

__all__ = ["OutputRow", "RunTimes", "output_rows", "run_times"]

_TOP = 5
_FEW = 8  # elements that are shown one by one
_MOST_SAMPLES = 16


@dataclass(frozen=True)
class OutputRow:
    """One output (or an element of one that is a sequence or map).

    least and largest: of the finite numbers, None where there is none. nan and inf: how many are not finite. top: for
    (samples, classes) and vectors of floats with at least five classes, the five largest as (class, value), the largest
    first, of each sample (at most 16). values: all elements in order, where they are few.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    least: float | None = None
    largest: float | None = None
    nan: int = 0
    inf: int = 0
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    values: tuple[Any, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class RunTimes:
    """Nanoseconds of a number of runs: the first, which may have to make memory and code ready, and of the others the
    median, least and percentiles, with how many inferences a second they were; None where there are no others."""

    runs: int
    first_ns: float
    median_ns: float | None = None
    minimum_ns: float | None = None
    p90_ns: float | None = None
    p99_ns: float | None = None
    inferences_per_second: float | None = None


def output_rows(outputs: Mapping[str, Any]) -> list[OutputRow]:
    """A row for every output; for sequences and maps, one for every element."""
    return [row for name, value in outputs.items() for row in _rows(name, value)]


def run_times(nanoseconds: Sequence[int]) -> RunTimes:
    """The times of at least one run."""
    first, others = float(nanoseconds[0]), np.asarray(nanoseconds[1:], np.float64)
    if not others.size:
        return RunTimes(1, first)
    median, p90, p99 = (float(value) for value in np.percentile(others, (50, 90, 99)))
    rate = 1e9 * others.size / max(float(others.sum()), 1.0)
    return RunTimes(len(nanoseconds), first, median, float(others.min()), p90, p99, rate)


def _rows(name: str, value: Any) -> Iterator[OutputRow]:
    if isinstance(value, (list, tuple)):
        if not value:
            yield OutputRow(name, "sequence", (0,))
        for index, element in enumerate(value):
            yield from _rows(f"{name}[{index}]", element)
    elif isinstance(value, Mapping):
        for key, element in value.items():
            yield from _rows(f"{name}[{key!r}]", element)
    elif value is None:
        yield OutputRow(name, "nothing", ())
    else:
        yield _row(name, np.asarray(value))


def _row(name: str, array: Array) -> OutputRow:
    few = tuple(array.reshape(-1).tolist()) if array.size <= _FEW else ()
    if array.dtype.kind in "OUS":
        return OutputRow(name, "text", array.shape, values=tuple(map(str, few)))
    if array.dtype.kind == "c":
        return OutputRow(name, str(array.dtype), array.shape, values=tuple(map(str, few)))
    numbers = array if array.dtype.kind in "iub" else array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, largest = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    nan, inf = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    return OutputRow(name, str(array.dtype), array.shape, least, largest, nan, inf, _top(numbers), few)


def _top(numbers: Array) -> tuple[tuple[tuple[int, float], ...], ...]:
    if numbers.dtype.kind != "f" or numbers.ndim not in (1, 2) or numbers.shape[-1] < _TOP or numbers.size <= _FEW:
        return ()
    samples = np.atleast_2d(numbers)[:_MOST_SAMPLES]
    comparable = np.where(np.isnan(samples), -np.inf, samples)
    order = np.argsort(-comparable, axis=-1, kind="stable")[:, :_TOP]
    return tuple(tuple((int(i), float(row[i])) for i in best) for row, best in zip(samples, order, strict=True))
