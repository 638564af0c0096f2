"""Timelines: what every thread does in real runs, and the clock that they are told by."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from graphs import conv_chain, feeds_for, plan_of
from report_pages import chain_with_hosts

from softneuro import reference
from softneuro.errors import InputError
from softneuro.runtime import Session
from softneuro.runtime.context import Stamps
from softneuro.runtime.timing import Kind, Timeline, _Clock

PLACES = {"no_host": (), "host_first": ("conv0",), "host_in_the_middle": ("conv1",), "host_last": ("conv2",),
          "two_hosts": ("conv0", "conv2"), "all_on_the_host": ("conv0", "conv1", "conv2")}  # fmt: skip


def traced(hosts: tuple[str, ...], threads: int, runs: int) -> tuple[Session, Timeline]:
    session = Session(plan_of(chain_with_hosts(hosts)), threads)
    return session, session.trace(feeds_for(conv_chain()), runs)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("hosts", PLACES.values(), ids=PLACES)
def test_spans_of_a_thread_are_in_order_and_within_their_run(hosts: tuple[str, ...], threads: int) -> None:
    _, timeline = traced(hosts, threads, 2)
    assert timeline.threads == threads
    assert len(timeline.runs) == 2
    assert timeline.runs[0][0] == 0
    assert timeline.runs[0][1] <= timeline.runs[1][0]
    for thread in range(threads):
        end = 0
        for span in timeline.of_thread(thread):
            begin, finish = timeline.runs[span.run]
            assert max(begin, end) <= span.start_ns <= span.end_ns <= finish
            end = span.end_ns
    assert tuple(s for t in range(threads) for s in timeline.of_thread(t)) == timeline.spans


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("hosts", PLACES.values(), ids=PLACES)
def test_every_launch_of_every_run_is_there_once(hosts: tuple[str, ...], threads: int) -> None:
    session, timeline = traced(hosts, threads, 2)
    placed = session.linked({"t0": (1, 8, 6, 5)}).program.placed
    native = [(p.name, i) for p in placed if p.name not in hosts for i in range(len(p.steps))]
    for run in range(2):
        for thread in range(threads):
            spans = [s for s in timeline.of_thread(thread) if s.run == run]
            assert [(s.name, s.launch) for s in spans if s.kind is Kind.WORK] == native
            assert [s.name for s in spans if s.kind is Kind.HOST] == ([*hosts] if thread == 0 else [])


def test_a_thread_alone_never_waits() -> None:
    _, timeline = traced((), 1, 3)
    assert {span.kind for span in timeline.spans} == {Kind.WORK}


def test_waiting_follows_the_work_waited_for() -> None:
    _, timeline = traced((), 3, 2)
    for thread in range(3):
        spans = timeline.of_thread(thread)
        for before, span in pairwise(spans):
            if span.kind is Kind.WAIT:
                assert before == replace(span, kind=Kind.WORK, start_ns=before.start_ns, end_ns=span.start_ns)


def test_threads_leave_a_barrier_after_all_have_come() -> None:
    _, timeline = traced((), 2, 3)
    last_work: dict[tuple[int, str, int], int] = {}
    for span in timeline.spans:
        if span.kind is Kind.WORK:
            key = span.run, span.name, span.launch
            last_work[key] = max(last_work.get(key, 0), span.end_ns)
    slack = 100_000  # counters of two processors may be a little apart
    for span in timeline.spans:
        if span.kind is Kind.WAIT:
            assert span.end_ns + slack >= last_work[span.run, span.name, span.launch]


@pytest.mark.parametrize("hosts", PLACES.values(), ids=PLACES)
def test_profile_has_a_time_for_every_row(hosts: tuple[str, ...]) -> None:
    rows = Session(plan_of(chain_with_hosts(hosts))).profile(feeds_for(conv_chain()), repeat=3)
    assert [name for name, _ in rows if not name.startswith("adapt ")] == ["conv0", "conv1", "conv2"]
    assert all(ns > 0 for _, ns in rows)


def test_runs_after_a_trace_are_right() -> None:
    graph = chain_with_hosts(("conv1",))
    session, _ = traced(("conv1",), 2, 1)
    expected = reference.run(graph, feeds_for(graph))["t3"]
    np.testing.assert_allclose(session.run(feeds_for(graph))["t3"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, -1])
def test_no_runs_are_refused(count: int) -> None:
    session = Session(plan_of(conv_chain()))
    with pytest.raises(InputError, match=f"runs: found {count}, needed 1 or more"):
        session.trace(feeds_for(conv_chain()), count)
    with pytest.raises(InputError, match=f"repeat: found {count}, needed 1 or more"):
        session.profile(feeds_for(conv_chain()), count)


def stamps(counts: list[int], start: int, end: int) -> Stamps:
    """One thread, one step, in one segment."""
    return Stamps(np.array([[counts]], np.int64), [(0, 1, start, end)])


def test_clock_has_the_rate_of_the_counter_and_keeps_to_all_bounds() -> None:
    # 2 cycles a nanosecond, count 0 at 1000 ns: every reading is some nanoseconds early or late
    early = stamps([0, 100, 2000], 1000 - 40, 2000 + 10)
    late = stamps([20_000_000, 20_000_100, 20_002_000], 10_001_000 - 6, 10_002_000 + 10)
    clock = _Clock.of(early, [late])
    assert clock.ns_a_cycle == pytest.approx(0.5)
    for run in (early, late):
        first, last = clock.ns(run.cycles[0, 0, [0, 2]])
        assert run.segments[0][2] <= first <= last <= run.segments[0][3]
    assert clock.ns(np.array([0], np.int64))[0] == pytest.approx(1002)  # the middle of 994 and 1010
