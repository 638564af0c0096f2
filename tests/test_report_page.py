"""The report's data, its layout of the graph, and that the file is closed in itself and safe with any names."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from graphs import conv_chain, feeds_for, plan_of
from report_pages import HOSTILE, hostile_page, page_of, residual_graph

from softneuro.report.drawing import picture_of
from softneuro.report.explanation import CandidateRow, Explanation, Refused
from softneuro.report.layout import Box, Drawing, layered
from softneuro.report.page import html_page, page_data
from softneuro.report.rows import LAYER, layer_rows
from softneuro.runtime import Session

Edges = list[tuple[int, int]]
GRAPHS: dict[str, tuple[int, Edges]] = {
    "one_box": (1, []),
    "unconnected": (4, []),
    "chain": (6, [(i, i + 1) for i in range(5)]),
    "same_edge_twice": (2, [(0, 1), (0, 1)]),
    "skip_over_four": (6, [*((i, i + 1) for i in range(5)), (0, 5)]),
    "diamond": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "many_readers_far_away": (12, [*((i, i + 1) for i in range(11)), *((0, i) for i in range(2, 12))]),
    "late_source": (5, [(0, 1), (1, 2), (2, 4), (3, 4)]),
    "dense": (9, [(i, j) for i in range(9) for j in range(i + 1, 9)]),
}


def random_graph(seed: int, count: int = 60) -> tuple[int, Edges]:
    rng = random.Random(seed)
    return count, [(rng.randrange(max(0, i - 8), i), i) for i in range(1, count) for _ in range(rng.randrange(1, 3))]


CASES = {**GRAPHS, **{f"random_{seed}": random_graph(seed) for seed in range(4)}}


def boxes_of(count: int) -> list[Box]:
    return [Box(60.0 + 37 * (i % 5), 20.0 + 12 * (i % 3)) for i in range(count)]


def drawn(case: str) -> tuple[list[Box], Edges, Drawing]:
    count, edges = CASES[case]
    return boxes_of(count), edges, layered(boxes_of(count), edges)


@pytest.mark.parametrize("case", CASES)
def test_edges_go_down_and_pass_a_bend_in_every_rank_between(case: str) -> None:
    _, edges, drawing = drawn(case)
    for source, target in edges:
        between = drawing.rank[target] - drawing.rank[source] - 1
        assert between >= 0
        assert len(drawing.bends[source]) >= between
    assert min(drawing.rank) == 0


@pytest.mark.parametrize("case", CASES)
def test_boxes_and_bends_of_a_rank_do_not_overlap(case: str) -> None:
    boxes, _, drawing = drawn(case)
    rows: dict[int, list[tuple[float, float]]] = {}
    for box, (x, _), rank in zip(boxes, drawing.centres, drawing.rank, strict=True):
        rows.setdefault(rank, []).append((x - box.width / 2, x + box.width / 2))
    for chain, rank in zip(drawing.bends, drawing.rank, strict=True):
        for step, x in enumerate(chain):
            rows.setdefault(rank + 1 + step, []).append((x, x))
    for row in rows.values():
        for (_, right), (left, _) in pairwise(sorted(row)):
            assert right < left


@pytest.mark.parametrize("case", CASES)
def test_everything_lies_within_the_drawing_and_its_bands(case: str) -> None:
    boxes, _, drawing = drawn(case)
    for box, (x, y), rank in zip(boxes, drawing.centres, drawing.rank, strict=True):
        top, bottom = drawing.bands[rank]
        assert top - 1e-6 <= y - box.height / 2 and y + box.height / 2 <= bottom + 1e-6
        assert x - box.width / 2 >= -1e-6 and x + box.width / 2 <= drawing.width + 1e-6
    assert all(below[0] > above[1] for above, below in pairwise(drawing.bands))
    assert drawing.height == drawing.bands[-1][1]


def test_a_chain_is_straight_even_with_an_edge_around_it() -> None:
    for case in ("chain", "skip_over_four"):
        _, _, drawing = drawn(case)
        assert max(x for x, _ in drawing.centres) - min(x for x, _ in drawing.centres) < 8


def test_a_source_stands_just_above_what_it_leads_to() -> None:
    _, _, drawing = drawn("late_source")
    assert drawing.rank[3] == drawing.rank[4] - 1


def test_branches_are_put_in_the_order_without_crossings() -> None:
    # two chains from two sources whose second boxes come in the other order
    drawing = layered([Box(50, 20)] * 6, [(0, 3), (1, 2), (2, 4), (3, 5)])
    x = [x for x, _ in drawing.centres]
    assert (x[0] < x[1]) == (x[3] < x[2]) == (x[5] < x[4])


def test_nothing_is_laid_out_for_no_boxes() -> None:
    assert layered([], []).centres == ()


def test_picture_has_adapts_between_the_layers_that_need_them() -> None:
    session = Session(plan_of(conv_chain()))
    picture = picture_of(session, {"t0": (1, 8, 6, 5)})
    placed = session.linked({"t0": (1, 8, 6, 5)}).program.placed
    kinds = ["adapt" if p.name.startswith("adapt ") else "layer" for p in placed]
    assert "adapt" in kinds
    assert [node.kind for node in picture.nodes] == ["input", *kinds, "output"]
    assert [node.row for node in picture.nodes] == [None, *range(len(placed)), None]
    assert [(e.source, e.target) for e in picture.edges] == [(i, i + 1) for i in range(len(picture.nodes) - 1)]
    assert [e.tensor for e in picture.edges][:2] == ["t0", "t0"]


def test_picture_of_a_residual_has_both_ways() -> None:
    graph = residual_graph()
    session = Session(plan_of(graph))
    picture = picture_of(session, {"x": (1, 8, 6, 5)})
    number = {node.name: index for index, node in enumerate(picture.nodes)}
    readers = {number[e.name] for e in picture.nodes if e.name in ("second", "sum")}
    assert len([e for e in picture.edges if e.target == number["sum"]]) == 2
    assert all(any(e.target == reader for e in picture.edges) for reader in readers)
    assert all(e.source < e.target for e in picture.edges)


def test_data_is_plain_and_complete() -> None:
    graph = conv_chain()
    session, feeds = Session(plan_of(graph), 2), feeds_for(graph)
    rows = layer_rows(session, feeds, 2)
    candidate = CandidateRow("a", "f", {"mr": 6}, 5.0, 0.1, chosen=True)
    same = Explanation("p", ("conv0", "conv1"), (candidate,), (Refused("b", "no"),))
    data = page_data(session, feeds, rows, {"conv0": same, "conv1": same}, session.trace(feeds, 2))
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert [row["name"] for row in data["rows"]] == [row.name for row in rows]
    by_name = {row["name"]: row for row in data["rows"]}
    assert by_name["conv0"]["explanation"] == by_name["conv1"]["explanation"] == 0
    assert by_name["conv2"]["explanation"] is None
    assert by_name["conv0"]["dtype"] == "f32"
    assert len(data["explanations"]) == 1
    assert data["explanations"][0]["candidates"][0]["schedule"] == {"mr": 6}
    assert len(data["timeline"]["threads"]) == 2
    assert len(data["timeline"]["runs"]) == 2
    assert data["total_ns"] == pytest.approx(sum(row.ns for row in rows))
    slowest = max((row for row in rows if row.kind == LAYER), key=lambda row: row.ns)
    names = {layer.name for layer in graph.layers}
    widths = {node["name"]: node["w"] for node in data["graph"]["nodes"] if node["name"] in names}
    assert widths[slowest.name] == max(widths.values())


def test_explanations_that_differ_are_kept_apart() -> None:
    graph = conv_chain()
    session, feeds = Session(plan_of(graph)), feeds_for(graph)
    explanations = {f"conv{i}": Explanation("p", (), (CandidateRow("a", "f", {}, 5.0, chosen=i == 1),)) for i in range(3)}
    data = page_data(session, feeds, layer_rows(session, feeds, 1), explanations, session.trace(feeds))
    assert [row["explanation"] for row in data["rows"] if row["name"].startswith("conv")] == [0, 1, 0]


def test_the_file_needs_nothing_else() -> None:
    page = page_of()
    links = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'<]*""", page))
    assert links <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<(?:script|img|iframe|object|embed)[^>]*\ssrc=", page)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", page)


def test_the_policy_names_the_one_script_and_style() -> None:
    page = page_of()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy.startswith("default-src 'none';")
    for text in (style, script):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "unsafe" not in policy


def test_hostile_names_stay_data() -> None:
    page = hostile_page()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert "<" not in text and "&" not in text
    data = json.loads(text)
    assert {row["name"] for row in data["rows"]} >= set(HOSTILE)
    assert data["model"] == HOSTILE[0]


@pytest.mark.parametrize("place", ["{{data}}", "{{script}}", "}}"])
def test_braces_in_names_are_not_taken_for_places_of_the_page(place: str) -> None:
    graph = conv_chain(1)
    plan = plan_of(graph)
    session = Session(replace(plan, provenance=replace(plan.provenance, model=place)))
    feeds = feeds_for(graph)
    page = html_page(session, feeds, layer_rows(session, feeds, 1), {}, session.trace(feeds))
    assert page.count('id="data"') == 1
    assert f"<title>{place} · softneuro</title>" in page


