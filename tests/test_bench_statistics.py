"""What a benchmark's times amount to, and the tables that show it: arithmetic on made-up times."""

from __future__ import annotations

import json
import math

import pytest

from softneuro.bench.batch import batch_of, with_batch
from softneuro.bench.statistics import Result, percentile, schedule, standing, warnings
from softneuro.bench.tables import CASE, TIMES, as_data, cells, markdown, speed_markdown, varying, verdicts
from softneuro.errors import InputError


def result(engine: str, rounds: list[list[int]], *, threads: int = 1, batch: int = 1, **other: object) -> Result:
    return Result("model", engine, "1.0", threads, batch, rounds, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "part", "expected"), [
    ([7], 0.9, 7), ([1, 2], 0.5, 1.5), (range(11), 0.9, 9), ([1, 2, 3], 0.0, 1), ([1, 2, 3], 1.0, 3), ([10, 20], 0.9, 19),
], ids=["single", "between", "exact", "minimum", "maximum", "linear"])  # fmt: skip
def test_percentile(times: list[int], part: float, expected: float) -> None:
    assert percentile(times, part) == pytest.approx(expected)


def test_result_sums_up_all_rounds() -> None:
    found = result("softneuro", [[3, 2, 1], [4, 5], [2]], batch=4, macs=6, peak_gflops=8.0)
    assert list(found.times) == [1, 2, 2, 3, 4, 5]
    assert (found.median_ns, found.minimum_ns, found.mean_ns) == (2.5, 1, 17 / 6)
    assert found.percentile(0.9) == pytest.approx(4.5)
    assert found.inferences_per_second == pytest.approx(6 * 1e9 / 17)
    assert found.samples_per_second == pytest.approx(4 * 6 * 1e9 / 17)
    assert found.spread == (4.5 - 2) / 2  # medians of the rounds: 2, 4.5, 2
    assert found.share_of_peak == pytest.approx(2 * 6 / 2.5 / 8)


@pytest.mark.parametrize("other", [{"macs": 1}, {"peak_gflops": 1.0}], ids=["no_peak", "no_arithmetic"])
def test_share_of_peak_is_unknown(other: dict[str, object]) -> None:
    assert result("softneuro", [[1]], **other).share_of_peak is None


@pytest.mark.parametrize(("seconds", "slowest_ns", "rounds", "turn"), [
    (3.0, 1e6, 10, 0.3), (3.0, 2e8, 5, 0.6), (3.0, 1e9, 3, 1.0), (3.0, 5e9, 3, 1.0), (0.0, 1e6, 3, 0.0), (0.05, 1e6, 3, 0.05 / 3),
    (0.0, 0.0, 3, 0.0), (30.0, 1e6, 100, 0.3),
], ids=["usual", "slow", "a_second", "slower_than_all_time", "no_time", "little_time", "instant", "long"])  # fmt: skip
def test_schedule(seconds: float, slowest_ns: float, rounds: int, turn: float) -> None:
    assert schedule(seconds, slowest_ns) == (rounds, pytest.approx(turn))


def test_standing_holds_the_best_peer_against_us() -> None:
    group = [result("softneuro", [[10, 20, 30]]), result("onnxruntime", [[30, 40, 50]]), result("openvino", [[25, 60, 60]])]
    where = standing(group)
    assert where is not None
    assert (where.peer, where.median, where.minimum, where.noisy) == ("onnxruntime", 2.0, 2.5, False)
    assert standing(group[:1]) is None and standing(group[1:]) is None


@pytest.mark.parametrize(("ours", "best", "worst", "noisy"), [
    ([[10], [11]], [[20], [21]], [[30], [31]], False), ([[10], [20]], [[20], [21]], [[30], [31]], True),
    ([[10], [11]], [[20], [30]], [[50], [51]], True), ([[10], [11]], [[20], [21]], [[30], [60]], False),
], ids=["calm", "we_are", "best_peer_is", "another_peer_is"])  # fmt: skip
def test_standing_tells_of_noise(ours: list[list[int]], best: list[list[int]], worst: list[list[int]], noisy: bool) -> None:
    where = standing([result("softneuro", ours), result("openvino", best), result("ncnn", worst)])
    assert where is not None and where.noisy is noisy


def test_warnings_name_the_case_and_the_noisy_engines() -> None:
    calm, noisy = result("softneuro", [[100], [110], [115]]), result("openvino", [[100], [110], [120]])
    (sentence,) = warnings([calm, noisy])
    assert sentence.startswith("model, threads 1, batch 1: ") and "spread over 18 % (openvino)," in sentence
    assert warnings([calm]) == []


@pytest.mark.parametrize(("difference", "words"), [
    (0.5, "by 0.5 of the largest value"), (math.inf, "in number, shape, type"), (math.nan, "in number, shape, type"),
])  # fmt: skip
def test_warnings_tell_of_other_outputs(difference: float, words: str) -> None:
    (sentence,) = warnings([result("openvino", [[1]], difference=difference)])
    assert f"outputs of openvino differ from ours {words}" in sentence
    assert warnings([result("openvino", [[1]], difference=1e-3)]) == []


# ---- tables


def test_markdown_is_padded() -> None:
    assert markdown(("name", "n"), [("a", "1"), ("longer", "1000")]).splitlines() == [
        "| name   |    n |",
        "| ------ | ---: |",
        "| a      |    1 |",
        "| longer | 1000 |",
    ]


def test_markdown_has_ratios_in_our_row_only() -> None:
    rows = [result("softneuro", [[2_000_000]], macs=10**8, peak_gflops=200.0, peak_bytes=50_000_000, load_ns=1_500_000),
            result("onnxruntime", [[3_000_000]], difference=1.234e-5)]  # fmt: skip
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in speed_markdown(rows).splitlines()]
    assert all(len(line) == len(lines[0]) for line in lines)
    ours, peer = (dict(zip(lines[0], line, strict=True)) for line in lines[2:])
    assert (ours["median ms"], ours["peer/ours median"], ours["peer/ours min"]) == ("2.000", "1.50", "1.50")
    assert (ours["of peak"], ours["load ms"], ours["peak MB"], ours["runs/s"]) == ("50 %", "1.5", "50", "500")
    assert (peer["peer/ours median"], peer["of peak"], peer["differs"]) == ("", "", "1e-05")
    assert "samples/s" not in ours


@pytest.mark.parametrize(("ns", "text"), [(12_345_678, "12.346"), (1_000_000, "1.000"), (123_456, "0.1235")])
def test_short_times_have_more_digits(ns: int, text: str) -> None:
    assert cells([result("softneuro", [[ns]])], TIMES[:1]) == [[[text]]]


def test_markdown_counts_samples_of_batches() -> None:
    head, _, row = speed_markdown([result("softneuro", [[2_000_000]], batch=8)]).splitlines()
    place = [cell.strip() for cell in head.split("|")].index("samples/s")
    assert row.split("|")[place].strip() == "4000"


def test_columns_that_are_the_same_everywhere_can_be_left_out() -> None:
    rows = [result("softneuro", [[1]], batch=1), result("softneuro", [[2]], batch=8)]
    assert [column.head for column in varying(rows, CASE)] == ["batch"]
    assert varying(rows[:1], CASE) == []
    assert [len(group) for group in cells([*rows, result("ncnn", [[1]], batch=8)], TIMES)] == [1, 2]


def test_verdicts() -> None:
    ours, fast, slow = result("softneuro", [[100]]), result("openvino", [[50]]), result("ncnn", [[150]])
    assert verdicts([ours, slow]) == ["ncnn takes 1.50 times as long as softneuro by medians, 1.50 by minima"]
    assert verdicts([ours, slow, fast]) == ["softneuro takes 2.00 times as long as openvino by medians, 2.00 by minima"]
    assert verdicts([ours]) == []
    other = [result("softneuro", [[10]], threads=2), result("ncnn", [[10], [20]], threads=2)]
    sentences = verdicts([ours, slow, *other])
    assert sentences[0].startswith("model, threads 1, batch 1: ncnn")
    assert sentences[1].startswith("model, threads 2, batch 1: ncnn") and sentences[1].endswith("(too noisy to tell)")


def test_data_is_plain() -> None:
    rows = [result("softneuro", [[4, 4], [6]]), result("openvino", [[2]], difference=math.inf),
            result("ncnn", [[8]], difference=1e-6)]  # fmt: skip
    ours, openvino, ncnn = json.loads(json.dumps(as_data(rows), allow_nan=False))
    assert (ours["best_peer"], ours["peer_over_ours_median"], ours["runs"]) == ("openvino", 0.5, 3)
    assert (ours["round_median_ns"], ours["relative_difference"], ours["same_shapes"]) == ([4, 6], None, None)
    assert (openvino["relative_difference"], openvino["same_shapes"]) == (None, False)
    assert (ncnn["relative_difference"], ncnn["same_shapes"]) == (1e-6, True)
    assert "peer_over_ours_median" not in ncnn


# ---- batches


def test_batch_replaces_first_dimensions() -> None:
    assert with_batch({"x": (1, 3, 4), "n": (1,), "s": ()}, 8) == {"x": (8, 3, 4), "n": (8,), "s": ()}
    with pytest.raises(InputError, match="no input of the model has a dimension"):
        with_batch({"s": ()}, 8)


@pytest.mark.parametrize(("shapes", "batch"), [
    ({"x": (4, 3, 5)}, 4), ({"x": (4, 3), "y": (4, 9)}, 4), ({"x": (4, 3), "n": (1,), "s": ()}, 4),
    ({"x": (2, 1, 8), "y": (1, 8)}, 1), ({"x": (7,)}, 1), ({}, 1),
], ids=["one", "shared", "vectors_do_not_count", "not_shared", "vector_only", "none"])  # fmt: skip
def test_batch_of(shapes: dict[str, tuple[int, ...]], batch: int) -> None:
    assert batch_of(shapes) == batch
