"""arena: live buffers never overlap, whatever the lifetimes."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.plan.arena import Interval, Placement, assign, lower_bound


def overlap_in_time(a: Interval, b: Interval) -> bool:
    return a.first <= b.last and b.first <= a.last


def assert_valid(intervals: list[Interval], placement: Placement, alignment: int) -> None:
    assert len(placement.offsets) == len(intervals)
    assert all(offset >= 0 and offset % alignment == 0 for offset in placement.offsets)
    placed = list(zip(intervals, placement.offsets, strict=True))
    for (a, a_offset), (b, b_offset) in combinations(placed, 2):
        if a.size and b.size and overlap_in_time(a, b):
            assert a_offset + a.size <= b_offset or b_offset + b.size <= a_offset, (a, b)
    assert placement.size == max((offset + interval.size for interval, offset in placed), default=0)
    assert placement.size >= lower_bound(intervals)


@st.composite
def interval_lists(draw: st.DrawFn) -> list[Interval]:
    steps = st.integers(0, 12)
    rows = draw(st.lists(st.tuples(steps, steps, st.integers(0, 300)), max_size=24))
    return [Interval(min(a, b), max(a, b), size) for a, b, size in rows]


@settings(max_examples=300, deadline=None)
@given(interval_lists(), st.sampled_from([1, 16, 48, 64]))
def test_no_two_live_buffers_overlap(intervals: list[Interval], alignment: int) -> None:
    placement = assign(intervals, alignment)
    assert_valid(intervals, placement, alignment)
    assert placement == assign(list(intervals), alignment)


@settings(max_examples=100, deadline=None)
@given(interval_lists())
def test_lower_bound_is_the_fullest_step(intervals: list[Interval]) -> None:
    fullest = max(sum(i.size for i in intervals if i.first <= step <= i.last) for step in range(13))
    assert lower_bound(intervals) == fullest


CASES = {
    "nothing": ([], (), 0),
    "zero_sized_only": ([Interval(0, 3, 0), Interval(1, 2, 0)], (0, 0), 0),
    "zero_sized_among_others": ([Interval(0, 1, 64), Interval(0, 1, 0), Interval(0, 1, 64)], (0, 0, 64), 128),
    "chain_needs_two_buffers": ([Interval(i, i + 1, 64) for i in range(4)], (0, 64, 0, 64), 128),
    "touching_steps_overlap": ([Interval(0, 1, 64), Interval(1, 2, 64)], (0, 64), 128),
    "successive_share": ([Interval(0, 1, 64), Interval(2, 3, 10)], (0, 0), 64),
    "last_end_is_not_padded": ([Interval(0, 0, 1), Interval(0, 0, 1)], (0, 64), 65),
    "negative_steps": ([Interval(-2, -1, 8), Interval(-1, 0, 8)], (0, 64), 72),
    # At step 5: a hole of 256, a buffer, a hole of 128, a buffer. The tighter hole takes the last one.
    "tightest_gap_first": (
        [
            Interval(0, 0, 256),
            Interval(0, 9, 200),
            Interval(0, 0, 128),
            Interval(0, 9, 100),
            Interval(5, 5, 90),
        ],
        (0, 256, 512, 640, 512),
        740,
    ),
    # The tall buffer covers the ones that start above its foot and end below its head.
    "gap_search_sees_tall_buffers": (
        [Interval(0, 1, 300), Interval(2, 3, 200), Interval(2, 3, 90), Interval(1, 2, 80)],
        (0, 0, 256, 384),
        464,
    ),
}


@pytest.mark.parametrize(("intervals", "offsets", "size"), CASES.values(), ids=CASES)
def test_placement(intervals: list[Interval], offsets: tuple[int, ...], size: int) -> None:
    assert assign(intervals) == Placement(offsets, size)
    assert_valid(intervals, assign(intervals), 64)


def test_five_thousand_short_lived_buffers_stay_near_the_bound() -> None:
    rng = np.random.default_rng(0)
    first = np.arange(5000)
    last = first + rng.integers(1, 8, 5000)
    sizes = rng.integers(1, 1 << 20, 5000) * 64
    intervals = [Interval(int(a), int(b), int(s)) for a, b, s in zip(first, last, sizes, strict=True)]
    placement = assign(intervals)
    assert lower_bound(intervals) <= placement.size <= 1.5 * lower_bound(intervals)
    live: dict[int, list[tuple[int, int]]] = {}
    for interval, offset in zip(intervals, placement.offsets, strict=True):
        for step in range(interval.first, interval.last + 1):
            live.setdefault(step, []).append((offset, offset + interval.size))
    for ranges in live.values():
        ranges.sort()
        assert all(low[1] <= high[0] for low, high in pairwise(ranges))


REFUSED = {
    "negative_size": ([Interval(0, 0, -1)], 64, "interval 0 has size -1"),
    "ends_before_it_starts": ([Interval(0, 0, 1), Interval(3, 2, 1)], 64, "interval 1 ends at step 2"),
    "alignment_of_zero": ([], 0, "alignment is 0"),
    "more_than_63_bits": ([Interval(0, 0, 1 << 62)] * 2, 64, "at most"),
}


@pytest.mark.parametrize(("intervals", "alignment", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(intervals: list[Interval], alignment: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assign(intervals, alignment)
