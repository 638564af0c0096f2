"""Buffer lifetimes → offsets in one arena.

Buffers whose lifetimes overlap get disjoint byte ranges; the others may share memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Interval:
    """One buffer: `size` bytes, alive from step `first` to step `last`, both inclusive."""

    first: int
    last: int
    size: int


@dataclass(frozen=True)
class Placement:
    """Byte offset of every interval, in the order given, and the bytes the arena needs."""

    offsets: tuple[int, ...]
    size: int


class _Placed:
    """The intervals placed so far, as columns sorted by offset."""

    def __init__(self, capacity: int) -> None:
        self.count = 0
        self.columns = np.empty((4, capacity), np.int64)  # first, last, offset, end

    def add(self, interval: Interval, offset: int) -> None:
        place = int(np.searchsorted(self.columns[2, : self.count], offset, side="right"))
        self.columns[:, place + 1 : self.count + 1] = self.columns[:, place : self.count]
        self.columns[:, place] = interval.first, interval.last, offset, offset + interval.size
        self.count += 1

    def best_fit(self, interval: Interval, alignment: int) -> int:
        """Start of the smallest gap between live neighbours that holds `interval`, else the end of all."""
        first, last, offset, end = self.columns[:, : self.count]
        live = (first <= interval.last) & (last >= interval.first)
        # Ends need not be sorted as offsets are: a tall buffer may cover several that start after it.
        floors = np.maximum.accumulate(np.concatenate(([0], end[live])))
        starts = -(-floors // alignment) * alignment
        gaps = offset[live] - starts[:-1]
        fits = np.flatnonzero(gaps >= interval.size)
        return int(starts[fits[np.argmin(gaps[fits])]] if fits.size else starts[-1])


def assign(intervals: Sequence[Interval], alignment: int = 64) -> Placement:
    """Place every interval at a multiple of `alignment` so that no two live at the same step overlap.

    Largest first, each into the tightest gap left by those already placed that live at the same time:
    "greedy by size for offset calculation", Pisarchyk and Lee, Efficient Memory Management for Deep Neural
    Net Inference, 2020, arXiv:2001.03288. Equal sizes go in the order of their first step, then as given. An
    interval of zero bytes gets offset 0 and is in nobody's way.

    Raises ValueError for an interval that ends before it starts, a negative size, a non-positive alignment,
    or sizes whose sum does not fit 63 bits.
    """
    _check(intervals, alignment)
    order = sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].first, i))
    offsets = [0] * len(intervals)
    placed = _Placed(len(intervals))
    for index in order:
        interval = intervals[index]
        if interval.size == 0:
            break
        offsets[index] = placed.best_fit(interval, alignment)
        placed.add(interval, offsets[index])
    ends = (offset + interval.size for offset, interval in zip(offsets, intervals, strict=True))
    return Placement(tuple(offsets), max(ends, default=0))


def lower_bound(intervals: Sequence[Interval]) -> int:
    """Bytes alive at the fullest step; no placement is smaller."""
    change: dict[int, int] = defaultdict(int)
    for interval in intervals:
        change[interval.first] += interval.size
        change[interval.last + 1] -= interval.size
    live = fullest = 0
    for step in sorted(change):
        live += change[step]
        fullest = max(fullest, live)
    return fullest


def _check(intervals: Sequence[Interval], alignment: int) -> None:
    if alignment < 1:
        raise ValueError(f"arena alignment is {alignment}, needed at least 1")
    for index, interval in enumerate(intervals):
        if interval.size < 0:
            raise ValueError(f"interval {index} has size {interval.size}, needed at least 0")
        if interval.last < interval.first:
            raise ValueError(
                f"interval {index} ends at step {interval.last} before it starts at {interval.first}"
            )
    total = sum(interval.size + alignment for interval in intervals)
    if total > _INT64_MAX:
        raise ValueError(
            f"intervals sum to {total} bytes with alignment, at most {_INT64_MAX} can be addressed"
        )
