"""A real run in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is that of the "Trace Event Format" document of the Chromium project: an object with ``traceEvents``, times
in microseconds. There is one track for each thread, with complete events (``"ph": "X"``) that never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softneuro._version import __version__
from softneuro.plan.program import Placed
from softneuro.runtime.session import Session
from softneuro.runtime.timing import Kind, Span, Timeline
from softneuro.types import Array

__all__ = ["chrome_trace", "trace_of"]

_PROCESS = 1


def chrome_trace(session: Session, feeds: Mapping[str, Array], runs: int = 3) -> dict[str, Any]:
    """Run the plan ``runs`` times and say what every thread did: an object to write as JSON.

    Raises InputError as `Session.trace` does.
    """
    return trace_of(session, session.trace(feeds, runs), feeds)


def trace_of(session: Session, timeline: Timeline, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """The trace of a timeline that was taken with these feeds."""
    linked = session.linked(feeds)
    placed = {item.name: item for item in linked.program.placed}
    provenance = session.plan.provenance
    model = provenance.model or session.plan.graph.name
    events = _metadata(f"softneuro: {model}", f"{provenance.machine} {session.target.name}".strip(), timeline.threads)
    for span in sorted(timeline.spans, key=lambda span: (span.start_ns, span.end_ns)):
        events.append(_complete(span, placed[span.name]))
    about = {
        "model": model, "model_sha256": provenance.model_sha256, "softneuro": __version__, "target": session.target.name,
        "threads": timeline.threads, "runs": len(timeline.runs),
        "run_ns": [end - start for start, end in timeline.runs],
    }  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _metadata(process: str, labels: str, threads: int) -> list[dict[str, Any]]:
    """The names of the process and of its threads, in the order in which the tracks are shown."""
    events = [_meta("process_name", 0, name=process), _meta("process_labels", 0, labels=labels)]
    for thread in range(threads):
        name = "thread 0 (caller)" if thread == 0 else f"thread {thread}"
        events += [_meta("thread_name", thread, name=name), _meta("thread_sort_index", thread, sort_index=thread)]
    return events


def _meta(what: str, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": thread, "args": args}


def _complete(span: Span, item: Placed) -> dict[str, Any]:
    """One complete event; waiting is named so and says for which layer."""
    waits = span.kind is Kind.WAIT
    return {
        "ph": "X", "name": f"wait: {span.name}" if waits else span.name, "cat": str(span.kind), "pid": _PROCESS,
        "tid": span.thread, "ts": span.start_ns / 1e3, "dur": span.ns / 1e3,
        "args": {"layer": span.name, "run": span.run} if waits else _arguments(span, item),
    }  # fmt: skip


def _arguments(span: Span, item: Placed) -> dict[str, Any]:
    problem, choice = item.problem, item.choice
    args: dict[str, Any] = {"layer": span.name, "run": span.run, "routine": choice.routine, "formats": str(choice.signature)}
    if choice.schedule:
        args["schedule"] = ", ".join(f"{key}={value}" for key, value in choice.schedule.items())
    if problem is not None:
        args["op"] = problem.op.name
        args["inputs"] = [str(type_) for type_ in problem.inputs if type_ is not None]
        args["outputs"] = [str(type_) for type_ in problem.outputs]
    else:
        args["op"] = choice.routine.split(".")[0]
    if len(item.steps) > 1:
        args["launch"] = f"{span.launch + 1} of {len(item.steps)}"
    return args
