"""Chrome traces: tracks, events and what they say."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from graphs import conv_chain, feeds_for, plan_of
from report_pages import chain_with_hosts

from softneuro.errors import InputError
from softneuro.report.trace import chrome_trace, trace_of
from softneuro.runtime import Session
from softneuro.runtime.timing import Kind

Event = dict[str, Any]


def session_of(threads: int, hosts: tuple[str, ...] = ()) -> Session:
    plan = plan_of(chain_with_hosts(hosts), threads)
    return Session(replace(plan, provenance=replace(plan.provenance, model="a.onnx")), threads)


def traced(threads: int, hosts: tuple[str, ...] = (), runs: int = 2) -> dict[str, Any]:
    return chrome_trace(session_of(threads, hosts), feeds_for(conv_chain()), runs)


def tracks(trace: dict[str, Any]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["tid"]].append(event)
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("hosts", [(), ("conv1",)], ids=["native", "host_in_the_middle"])
def test_a_named_track_for_each_thread_without_overlaps(threads: int, hosts: tuple[str, ...]) -> None:
    trace = traced(threads, hosts)
    found = tracks(trace)
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    assert sorted(found) == sorted(names) == list(range(threads))
    assert names[0] == "thread 0 (caller)"
    for events in found.values():
        for before, event in pairwise(events):
            assert before["ts"] + before["dur"] <= event["ts"] + 1e-6
    times = [event["ts"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert times == sorted(times)


def test_metadata_names_the_process() -> None:
    events = [e for e in traced(2)["traceEvents"] if e["ph"] == "M"]
    assert next(e for e in events if e["name"] == "process_name")["args"]["name"] == "softneuro: a.onnx"
    assert [e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"] == [0, 1]


def test_every_layer_of_every_run_is_there_with_what_computes_it() -> None:
    trace = traced(2, ("conv2",))
    for run in (0, 1):
        work = [e for e in tracks(trace)[0] if e["cat"] != "wait" and e["args"]["run"] == run]
        assert [e["name"] for e in work if not e["name"].startswith("adapt ")] == ["conv0", "conv1", "conv2"]
        assert any(e["name"].startswith("adapt t0 to ") for e in work)
        first = next(e for e in work if e["name"] == "conv0")
        assert first["cat"] == "work"
        assert first["args"]["op"] == "conv"
        assert first["args"]["routine"].startswith("conv.")
        assert "f32:" in first["args"]["formats"]
        assert first["args"]["inputs"][0] == first["args"]["outputs"][0] == "f32[1,8,6,5]"
        assert next(e for e in work if e["name"] == "conv2")["cat"] == "host"


def test_waiting_says_for_which_layer() -> None:
    for event in (e for events in tracks(traced(3)).values() for e in events if e["cat"] == "wait"):
        assert event["name"] == f"wait: {event['args']['layer']}"


def test_durations_are_those_of_the_timeline_in_microseconds() -> None:
    session, feeds = session_of(2), feeds_for(conv_chain())
    timeline = session.trace(feeds, 2)
    trace = trace_of(session, timeline, feeds)
    for kind in Kind:
        total = sum(e["dur"] for events in tracks(trace).values() for e in events if e["cat"] == kind)
        assert total == pytest.approx(sum(s.ns for s in timeline.spans if s.kind is kind) / 1e3)
    for thread, events in tracks(trace).items():
        assert sum(e["dur"] for e in events) <= sum(end - start for start, end in timeline.runs) / 1e3
        assert len(events) == len(timeline.of_thread(thread))
    assert trace["otherData"]["run_ns"] == [end - start for start, end in timeline.runs]


def test_it_is_json_without_numbers_that_json_lacks() -> None:
    trace = traced(2)
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    assert {e["ph"] for e in trace["traceEvents"]} == {"M", "X"}
    assert all({"name", "pid", "tid", "args"} <= e.keys() for e in trace["traceEvents"])


def test_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs: found 0"):
        traced(1, runs=0)
