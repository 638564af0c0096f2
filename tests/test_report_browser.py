"""The report in a headless Chromium, without a network: it draws, finds, explains, sorts, and trusts no name."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs import conv_chain
from report_pages import HOSTILE, chain_with_hosts, hostile_page, page_of

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

CHROMIUM = os.environ.get("SOFTNEURO_CHROMIUM") or next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome")) if found), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium: none is on the path, nor named by SOFTNEURO_CHROMIUM")
PAINTED = """(() => {
  const canvas = document.getElementById("spans");
  const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return bytes.filter((value, index) => index % 4 === 3 && value > 0).length;
})()"""
"""How many pixels of the timeline are painted."""
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    pages = {
        "residual": page_of(), "hostile": hostile_page(), "one_layer": page_of(conv_chain(1), threads=1),
        "host": page_of(chain_with_hosts(("conv1",))), "long": page_of(conv_chain(300, 4), explanations={}),
    }  # fmt: skip
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


class Opened:
    """A report in a tab; everything that goes wrong there is kept."""

    def __init__(self, browser: Any, path: Path, viewport: dict[str, int], scheme: str) -> None:
        self.wrong: list[str] = []
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: request.url.startswith(("file:", "data:")) or self.wrong.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def opened(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    tabs: list[Opened] = []

    def go(name: str, viewport: dict[str, int] = DESK, scheme: str = "light") -> Any:
        tabs.append(Opened(browser, files[name], viewport, scheme))
        return tabs[-1].page

    yield go
    for tab in tabs:
        tab.context.close()
        assert tab.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", ["residual", "one_layer", "host", "long"])
def test_it_draws_every_layer_in_every_part(opened: Any, name: str, viewport: dict[str, int], scheme: str) -> None:
    page = opened(name, viewport, scheme)
    rows = page.locator("#table tbody tr").count()
    assert rows == page.locator(".node.layer, .node.adapt").count() >= 1
    assert page.locator(".node.input").count() == page.locator(".node.output").count() == 1
    assert page.locator("#title").inner_text() == "net.onnx"
    assert page.locator(".figure").count() == 5
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page itself never scrolls sideways"


def test_figures_say_what_the_search_gained(opened: Any) -> None:
    text = opened("residual").locator("#figures").inner_text()
    assert "2.00\N{MULTIPLICATION SIGN}" in text
    assert "90.0 µs" in text


def test_a_layer_is_found_and_its_candidates_are_read(opened: Any) -> None:
    page = opened("residual")
    page.fill("#search", "second")
    assert page.locator("#found").inner_text() == "1 of 1"
    assert page.locator(".node.hit .name").text_content() == "second"
    panel = page.locator("#panel")
    assert panel.locator("h3").inner_text() == "second"
    assert "problem of second" in panel.inner_text()
    candidates = panel.locator(".candidates tbody tr")
    assert candidates.count() == 4
    assert "conv.fast.f32.chl" in candidates.nth(0).inner_text()
    assert "40.0 µs" in candidates.nth(0).inner_text()
    assert page.locator(".candidates .badge.chosen").count() == 1
    assert {"chosen", "tied"} <= set(candidates.nth(1).inner_text().split())
    assert "\N{MULTIPLICATION SIGN}1.02" in candidates.nth(1).inner_text()
    assert "wrong numbers" in candidates.nth(3).inner_text()
    assert "found strides 2x2, needed 1x1" in panel.locator(".refused").inner_text()
    assert "The tied one needs no adapt." in panel.inner_text()


def in_sight(page: Any, selector: str) -> bool:
    box, frame = page.locator(selector).bounding_box(), page.locator("#canvas").bounding_box()
    middle = box["y"] + box["height"] / 2
    return bool(frame["y"] < middle < frame["y"] + frame["height"])


def test_search_centres_and_goes_round(opened: Any) -> None:
    page = opened("long")
    page.focus("body")
    page.keyboard.press("/")
    page.keyboard.type("conv29")
    assert page.locator("#found").inner_text() == "1 of 11"
    names = []
    for _ in range(12):
        names.append(page.locator("#panel h3").inner_text())
        page.wait_for_function("document.querySelector('.node.hit')")
        page.wait_for_timeout(50)
        assert in_sight(page, ".node.hit .body")
        page.keyboard.press("Enter")
    assert names == ["conv29", *(f"conv{i}" for i in range(290, 300)), "conv29"]
    page.keyboard.press("Shift+Enter")
    assert page.locator("#panel h3").inner_text() == "conv29"
    page.keyboard.press("Escape")
    assert page.locator(".node.match").count() == 0
    page.fill("#search", "no such layer")
    assert page.locator("#found").inner_text() == "none"


def test_hover_shows_and_click_keeps(opened: Any) -> None:
    page = opened("residual")
    heading = page.locator("#panel h3")
    assert heading.inner_text() == "Slowest layers"
    page.locator(".node.layer", has_text="first").hover()
    assert heading.inner_text() == "first"
    page.mouse.move(5, 5)
    assert heading.inner_text() == "Slowest layers"
    page.locator(".node.layer", has_text="first").click()
    page.locator(".node.layer", has_text="second").hover()
    assert heading.inner_text() == "second"
    page.mouse.move(5, 5)
    assert heading.inner_text() == "first"
    assert page.locator("#table tr.kept .name").inner_text() == "first"


def test_the_graph_is_walked_by_keyboard(opened: Any) -> None:
    page = opened("residual")
    page.locator(".node.input").focus()
    seen = []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        seen.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert all(in_sight(page, ".node:focus .body") for _ in seen)
    assert any(label.startswith("first, conv+relu, ") for label in seen)
    shown = page.locator("#panel h3").inner_text()
    page.keyboard.press("Enter")
    page.locator("#search").focus()
    assert page.locator("#panel h3").inner_text() == shown
    assert page.locator('.node[tabindex="0"]').count() == 1


def transform(page: Any) -> list[float]:
    page.wait_for_timeout(60)
    return [float(n) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", page.locator("#world").get_attribute("transform"))]


def test_wheel_buttons_and_dragging_move_the_graph(opened: Any) -> None:
    page = opened("long")
    box = page.locator("#canvas").bounding_box()
    x, y = box["x"] + 40, box["y"] + 200
    start = transform(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    closer = transform(page)
    assert closer[2] > start[2]
    page.mouse.down()
    page.mouse.move(x + 30, y - 120, steps=4)
    page.mouse.up()
    moved = transform(page)
    assert moved[0] - closer[0] == pytest.approx(30)
    assert moved[1] - closer[1] == pytest.approx(-120)
    page.click("#graph-out")
    assert transform(page)[2] < moved[2]
    page.click("#graph-fit")
    whole = transform(page)
    assert whole[2] < 0.1
    page.click("#graph-in")
    assert transform(page)[2] > whole[2]
    page.click("#graph-width")
    assert transform(page) == start


@pytest.mark.parametrize("colouring", ["dtype", "family", "time"])
def test_colours_have_a_legend(opened: Any, colouring: str) -> None:
    page = opened("host")
    page.select_option("#colouring", colouring)
    wanted = {"dtype": "f32", "family": "conv", "time": "slow"}[colouring]
    assert wanted in page.locator("#legend").inner_text()
    assert "host" in page.locator("#legend").inner_text()


def column(page: Any, index: int) -> list[str]:
    return [text.strip() for text in page.locator(f"#table tbody td:nth-child({index})").all_inner_texts()]


def test_the_table_sorts(opened: Any) -> None:
    page = opened("host")
    heads = page.locator("#table th")
    assert heads.nth(0).get_attribute("aria-sort") == "ascending"
    order = column(page, 2)
    heads.nth(6).locator("button").click()
    assert heads.nth(6).get_attribute("aria-sort") == "descending"
    assert heads.nth(0).get_attribute("aria-sort") is None
    times = [float(text) for text in column(page, 7)]
    assert times == sorted(times, reverse=True)
    heads.nth(6).locator("button").click()
    assert heads.nth(6).get_attribute("aria-sort") == "ascending"
    assert [float(text) for text in column(page, 7)] == sorted(times)
    heads.nth(1).locator("button").press("Enter")
    assert column(page, 2) == sorted(order)
    heads.nth(0).locator("button").click()
    assert column(page, 2) == order


def test_a_row_shows_its_layer_in_the_graph(opened: Any) -> None:
    page = opened("long")
    page.locator("#table tbody tr", has_text="conv250").first.click()
    assert page.locator("#panel h3").inner_text() == "conv250"
    page.wait_for_timeout(60)
    assert in_sight(page, ".node.kept .body")
    page.locator("#table tbody tr.kept").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#panel h3").inner_text() == "conv251"
    assert page.locator('#table tbody tr[tabindex="0"]').count() == 1


@pytest.mark.parametrize(("name", "threads"), [("one_layer", 1), ("residual", 2), ("host", 2)])
def test_the_timeline_has_a_track_for_each_thread(opened: Any, name: str, threads: int) -> None:
    page = opened(name)
    tracks = page.locator("#timeline .track")
    assert [text.splitlines()[0] for text in tracks.all_inner_texts()] == [f"Thread {i}" for i in range(threads)]
    assert page.locator("#runs button").all_inner_texts() == ["All", "Run 1", "Run 2", "Run 3"]
    height = page.locator("#spans").bounding_box()["height"]
    assert height >= 44 * threads
    assert page.evaluate(PAINTED) > 1000


def find_span(page: Any) -> tuple[float, float]:
    """A place of the first track with a layer under it."""
    page.locator("#spans").scroll_into_view_if_needed()
    box = page.locator("#spans").bounding_box()
    y = box["y"] + 26 + 22
    for step in range(1, 200):
        page.mouse.move(box["x"] + box["width"] * step / 200, y)
        if page.locator("#tip").is_visible() and page.locator("#tip").inner_text().splitlines()[1].startswith(("work", "host")):
            return box["x"] + box["width"] * step / 200, y
    raise AssertionError("no span was found")


def test_the_timeline_tells_what_ran_and_zooms(opened: Any) -> None:
    page = opened("host")
    x, y = find_span(page)
    tip = page.locator("#tip").inner_text()
    assert re.search(r"(work|host) [\d.]+ (ns|µs|ms), thread 0, run 3", tip)
    page.mouse.click(x, y)
    assert page.locator("#table tr.kept .name").inner_text() == tip.splitlines()[0]
    before = page.locator("#spans").screenshot()
    page.click("#timeline-in")
    page.wait_for_timeout(60)
    assert page.locator("#spans").screenshot() != before
    page.locator("#spans").focus()
    for key in ("ArrowRight", "ArrowLeft", "+", "-", "Home", "End", "0"):
        page.keyboard.press(key)


def test_hostile_names_are_shown_as_text(opened: Any) -> None:
    page = opened("hostile")
    assert page.title() == f"{HOSTILE[0]} · softneuro"
    assert page.locator("#title").inner_text() == HOSTILE[0]
    shown = page.locator("#table .name").all_text_contents()
    assert set(HOSTILE) <= set(shown)
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scripts.length") == 2
    for name in HOSTILE:
        page.fill("#search", name)
        assert page.locator("#panel h3").text_content() == name
        assert HOSTILE[1] in page.locator("#panel").text_content()
    labels = page.locator(".node").evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))")
    assert all(any(label.startswith(name) for label in labels) for name in HOSTILE)
    page.locator(".node.layer").first.hover()
    assert page.evaluate("window.hacked") is None
