"""The report: one HTML file that shows a plan and its runs, without the network.

The page's own parts lie in ``assets/`` and are put into the file whole. What is shown comes as one JSON text; the
scripts put names into the page as text only, for models are untrusted. A content security policy names the page's one
script and style by their digests, so nothing else can run or load.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from softneuro._version import __version__
from softneuro.report.drawing import Node, Picture, picture_of
from softneuro.report.explanation import CandidateRow, Explanation
from softneuro.report.layout import Box, Drawing, layered
from softneuro.report.rows import LayerRow
from softneuro.runtime.session import Session
from softneuro.runtime.timing import Kind, Timeline
from softneuro.types import Array, TensorType

__all__ = ["html_page", "page_data"]

_SCRIPTS = ("base.js", "header.js", "overview.js", "graph.js", "panel.js", "timeline.js", "table.js", "search.js", "main.js")
_KINDS = (Kind.WORK, Kind.WAIT, Kind.HOST)
_LEAST_WIDTH, _TIME_WIDTH = 168.0, 260.0
"""Pixels of the narrowest layer's box, and what the slowest one's has more."""


def html_page(session: Session, feeds: Mapping[str, Array], rows: Sequence[LayerRow],
              explanations: Mapping[str, Explanation], timeline: Timeline) -> str:
    """The report as the text of an HTML file.

    rows: those of `layer_rows` for these feeds, in its order. explanations: by layer or adapt; those without one are
    shown without candidates. timeline: of `Session.trace` with these feeds.
    """
    data = page_data(session, feeds, rows, explanations, timeline)
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, _SCRIPTS)) + "\n})();\n"
    style = _asset("page.css")
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    parts = {
        "policy": html.escape(policy), "title": html.escape(f"{data['model']} · softneuro"), "style": style,
        "data": _embedded(data), "script": script,
    }  # fmt: skip
    page = _asset("page.html")
    head, *pieces = page.split("{{")
    return head + "".join(parts[name] + rest for name, _, rest in (piece.partition("}}") for piece in pieces))


def _type_text(feed: Any) -> str:
    """``f32[1,3]``; the kind of what is no tensor."""
    return str(TensorType.of(feed)) if isinstance(feed, np.ndarray) else type(feed).__name__


def page_data(session: Session, feeds: Mapping[str, Array], rows: Sequence[LayerRow],
              explanations: Mapping[str, Explanation], timeline: Timeline) -> dict[str, Any]:
    """All that the page shows, as plain data."""
    picture = picture_of(session, feeds)
    boxes = _boxes(picture, rows)
    drawing = layered(boxes, [(edge.source, edge.target) for edge in picture.edges])
    numbers, texts = _numbered(rows, explanations)
    return {
        **_summary(session, feeds, rows),
        "rows": [_row(row, numbers.get(row.name)) for row in rows],
        "explanations": texts,
        "graph": _graph(picture, boxes, drawing, session, feeds),
        "timeline": _timeline(timeline, rows),
    }


def _asset(name: str) -> str:
    return resources.files("softneuro.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The source of a content security policy that allows just this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _summary(session: Session, feeds: Mapping[str, Array], rows: Sequence[LayerRow]) -> dict[str, Any]:
    made = session.plan.provenance
    return {
        "model": made.model or session.plan.graph.name, "sha256": made.model_sha256, "machine": made.machine,
        "target": session.target.name, "tuned_for": made.target, "version": __version__, "tuned_with": made.version,
        "threads": session.threads, "tuned_threads": made.threads, "kept": made.kept, "optimal": made.optimal,
        "predicted_ns": made.predicted_ns, "measured_ns": made.measured_ns, "default_ns": made.default_ns,
        "bound_ns": made.lower_bound_ns, "total_ns": sum(row.ns for row in rows), "command": made.command,
        "inputs": [[name, _type_text(feed)] for name, feed in feeds.items()],
    }  # fmt: skip


def _row(row: LayerRow, explanation: int | None) -> dict[str, Any]:
    return {
        "name": row.name, "kind": row.kind, "op": row.op, "shapes": row.shapes, "output": row.output, "routine": row.routine,
        "schedule": dict(row.schedule), "formats": row.formats, "ns": row.ns, "share": row.share,
        "predicted_ns": row.predicted_ns, "gflops": row.gflops, "steps": row.steps, "dtype": _dtype(row),
        "family": row.family, "explanation": explanation,
    }  # fmt: skip


def _dtype(row: LayerRow) -> str:
    """The data type that a row computes in: the routine's, or for a routine of any type that of its output."""
    parts = row.routine.split(".")
    named = parts[2] if len(parts) > 3 else "any"
    return named if named != "any" else row.output.partition("[")[0]


def _numbered(rows: Sequence[LayerRow], explanations: Mapping[str, Explanation]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Each different explanation once, and for each row which it has."""
    numbers: dict[str, int] = {}
    known: dict[str, int] = {}
    texts: list[dict[str, Any]] = []
    for row in rows:
        if row.name in explanations:
            data = _explanation(explanations[row.name])
            key = json.dumps(data, sort_keys=True)
            if key not in known:
                known[key] = len(texts)
                texts.append(data)
            numbers[row.name] = known[key]
    return numbers, texts


def _explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "problem": explanation.problem, "reason": explanation.reason,
        "candidates": [_candidate(candidate) for candidate in explanation.candidates],
        "refused": [{"routine": refused.routine, "reason": refused.reason} for refused in explanation.refused],
    }  # fmt: skip


def _candidate(row: CandidateRow) -> dict[str, Any]:
    return {
        "routine": row.routine, "formats": row.formats, "schedule": dict(row.schedule), "ns": row.ns, "spread": row.spread,
        "note": row.note, "chosen": row.chosen, "tied": row.tied,
    }  # fmt: skip


def _boxes(picture: Picture, rows: Sequence[LayerRow]) -> list[Box]:
    most = max((row.ns for row in rows), default=0.0) or 1.0
    return [_box(node, rows, most) for node in picture.nodes]


def _box(node: Node, rows: Sequence[LayerRow], most_ns: float) -> Box:
    """A box as wide as its layer takes long, above a least width in which its text is read."""
    if node.row is None:
        return Box(min(240.0, max(96.0, 7.5 * len(node.name) + 28)), 28.0)
    row = rows[node.row]
    extra = _TIME_WIDTH * row.ns / most_ns
    if row.kind == "adapt":
        return Box(104.0 + extra, 20.0)
    return Box(132.0, 22.0) if row.steps == 0 else Box(_LEAST_WIDTH + extra, 44.0)


def _graph(picture: Picture, boxes: Sequence[Box], drawing: Drawing, session: Session,
           feeds: Mapping[str, Array]) -> dict[str, Any]:
    def node(index: int) -> dict[str, Any]:
        item, (x, y) = picture.nodes[index], drawing.centres[index]
        return {
            "name": item.name, "kind": item.kind, "row": item.row, "x": round(x, 1), "y": round(y, 1),
            "w": round(boxes[index].width, 1), "h": boxes[index].height, "rank": drawing.rank[index],
            "bends": [round(bend, 1) for bend in drawing.bends[index]],
        }  # fmt: skip

    return {
        "nodes": [node(index) for index in range(len(picture.nodes))],
        "edges": [[edge.source, edge.target, edge.tensor] for edge in picture.edges],
        "bands": [[round(top, 1), round(bottom, 1)] for top, bottom in drawing.bands],
        "width": round(drawing.width, 1), "height": round(drawing.height, 1),
    }  # fmt: skip


def _timeline(timeline: Timeline, rows: Sequence[LayerRow]) -> dict[str, Any]:
    """Spans of each thread as [row, kind, start, end, run, launch]."""
    number = {row.name: index for index, row in enumerate(rows)}
    spans: list[list[list[int]]] = [[] for _ in range(timeline.threads)]
    for span in timeline.spans:
        kind = _KINDS.index(span.kind)
        spans[span.thread].append([number[span.name], kind, span.start_ns, span.end_ns, span.run, span.launch])
    return {"kinds": list(map(str, _KINDS)), "threads": spans, "runs": [list(run) for run in timeline.runs]}
