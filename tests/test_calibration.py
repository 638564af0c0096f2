"""Calibration of whole graphs: what each tensor's range is, and which tensors have one in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import softneuro
from softneuro import reference
from softneuro.calibration.calibrate import calibrated
from softneuro.calibration.clamps import clamps
from softneuro.calibration.data import samples_of
from softneuro.calibration.histogram import Histogram
from softneuro.calibration.samples import Sample
from softneuro.calibration.sharing import MOVING, linked
from softneuro.calibration.statistics import observe
from softneuro.calibration.table import CalibrationTable
from softneuro.demo.data import INPUT, load_pictures, model_path
from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.gather import Gather
from softneuro.ops.movement import Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.pool import Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.resize import Resize
from softneuro.ops.slicing import Concat, Split, StridedSlice
from softneuro.ops.table import OPS
from softneuro.ops.view import View
from softneuro.types import Array
from tests.graph_building import Builder


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def table_of(graph: Graph, arrays: list[Array], **options: Any) -> CalibrationTable:
    return calibrated(graph, samples_of(graph, arrays), **options)


def small_net() -> tuple[Graph, dict[str, str]]:
    """conv+relu6, max pool, two branches that are concatenated, a residual."""
    b = Builder()
    x = b.input(1, 3, 8, 8)
    first = b.layer(Conv((1, 1), (1, 1, 1, 1), (1, 1), epilogue=Epilogue("clip", (0.0, 6.0))), x, b.weights(4, 3, 3, 3))
    pool = b.layer(Pool("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)), first)
    left, right = b.conv(pool, 4, 4), b.conv(pool, 5, 4)
    both = b.layer(Concat(1), left, right)
    adding = Conv((1, 1), (0,) * 4, (1, 1), epilogue=Epilogue("relu", residual="before"))
    last = b.layer(adding, both, b.weights(9, 9, 1, 1), both)
    return b.graph(last), {"x": x, "first": first, "pool": pool, "left": left, "right": right, "both": both, "last": last}


def test_ranges_are_those_of_the_reference() -> None:
    graph, names = small_net()
    arrays = [floats(1, 3, 8, 8, seed=seed) for seed in range(5)]
    table = table_of(graph, arrays, method="min-max")
    inner = replace(graph, outputs=tuple(names[n] for n in ("first", "left", "right", "last")))
    runs = [reference.run(inner, {names["x"]: array}) for array in arrays]
    ends = {n: (min(float(r[n].min()) for r in runs), max(float(r[n].max()) for r in runs)) for n in inner.outputs}
    assert table.ranges[names["x"]].high == max(array.max() for array in arrays)
    for name in (names["first"], names["last"]):
        assert (table.ranges[name].low, table.ranges[name].high) == (0, pytest.approx(ends[name][1], rel=1e-5))
    assert table.ranges[names["first"]].high <= 6
    joined = table.ranges[names["both"]]
    assert joined.low == pytest.approx(min(ends[names[n]][0] for n in ("left", "right")), rel=1e-5)
    assert joined.high == pytest.approx(max(ends[names[n]][1] for n in ("left", "right")), rel=1e-5)
    assert table.samples == 5 and not table.left_out
    assert not set(table.ranges) & set(graph.constants)


def test_moved_tensors_share_and_residuals_do_not() -> None:
    graph, names = small_net()
    quantisations = table_of(graph, [floats(1, 3, 8, 8)]).applied(graph).quantisations
    assert quantisations[names["first"]] == quantisations[names["pool"]]
    assert quantisations[names["left"]] == quantisations[names["right"]] == quantisations[names["both"]]
    assert len({quantisations[names[n]] for n in ("x", "first", "both", "last")}) == 4
    groups = linked(graph, set(quantisations))
    assert sorted(map(len, groups)) == [1, 1, 2, 3]


@pytest.mark.parametrize(("op", "inputs", "outputs", "shares"), [
    (View((96,)), 1, 1, True),
    (Transpose((0, 2, 1, 3)), 1, 1, True),
    (StridedSlice((0, 0, 0, 0), (1, 1, 1, 1), (1, 2, 4, 4)), 1, 1, True),
    (Split(1, (2, 4)), 1, 2, True),
    (Concat(1), 2, 1, True),
    (Pad("constant", (0, 0, 1, 1, 0, 0, 1, 1)), 1, 1, True),
    (Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1)), 1, 1, True),
    (Pool("average", (2, 2), (2, 2), (0,) * 4, (1, 1)), 1, 1, False),
    (Resize("nearest", sizes=(1, 6, 8, 8), scales=(1.0, 1.0, 2.0, 2.0)), 1, 1, True),
    (Resize("linear", sizes=(1, 6, 8, 8), scales=(1.0, 1.0, 2.0, 2.0)), 1, 1, False),
    (Reduce("mean", (2, 3)), 1, 1, False),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_what_only_moves_elements_shares(op: Any, inputs: int, outputs: int, shares: bool) -> None:
    b = Builder()
    names = [b.input(1, 6, 4, 4) for _ in range(inputs)]
    first = b.layer(op, *names, outputs=outputs)
    made = [first, *(f"{first}.{i}" for i in range(1, outputs))]
    graph = b.graph(*made)
    assert len(linked(graph, [*names, *made])) == (1 if shares else 2)


def test_links_lead_through_tensors_that_have_no_range_but_not_through_constants() -> None:
    b = Builder()
    x, y = b.input(2, 3), b.input(2, 3)
    middle = b.layer(Concat(0), x, b.weights(2, 3))
    end = b.layer(View((12,)), middle)
    other = b.layer(Gather(0), y, b.constant(np.array([1])))
    graph = b.graph(end, other)
    assert linked(graph, [x, end, y, other]) == [[x, end], [y, other]]


def test_every_moving_op_is_known() -> None:
    assert set(MOVING) <= set(OPS.values())


def test_readers_that_clamp_narrow_a_range() -> None:
    b = Builder()
    x, y, z = b.input(1, 64), b.input(1, 64), b.input(1, 64)
    graph = b.graph(b.pointwise("relu(x0)", x), b.pointwise("clip(x0,-1.0,0.5)", y), b.pointwise("relu(x0);add(t0,x1)", z, z))
    assert clamps(graph) == {x: (0, np.inf), y: (-1, 0.5)}
    ranges = calibrated(graph, [Sample({n: floats(1, 64, seed=s) for n in (x, y, z)}, "") for s in range(3)]).ranges
    assert ranges[x].low == 0 and -1 <= ranges[y].low < ranges[y].high <= 0.5 and ranges[z].low < -1.5


def test_a_graph_output_is_not_clamped() -> None:
    b = Builder()
    shifted = b.pointwise("add(x0,1.0)", b.input(1, 8))
    assert clamps(b.graph(shifted, b.pointwise("relu(x0)", shifted))) == {}


@pytest.mark.parametrize(("value", "low", "high", "scale"), [(0.0, 0, 0, 1.0), (2.55, 0, 2.55, 0.01), (-2.55, -2.55, 0, 0.01)])
def test_constant_tensors(value: float, low: float, high: float, scale: float) -> None:
    b = Builder()
    graph = b.graph(b.pointwise("mul(x0,1.0)", b.input(1, 8)))
    table = table_of(graph, [np.full((1, 8), value, np.float32)])
    for name, found in table.ranges.items():
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high)), name
        assert found.quantisation.scale == pytest.approx(scale)
        kept = found.quantisation.dequantised(found.quantisation.quantised(np.array([value], np.float32)))
        np.testing.assert_allclose(kept, value, rtol=1e-6)


def test_nan_and_infinite_tensors_are_left_out() -> None:
    b = Builder()
    x = b.input(1, 8)
    root, kept = b.pointwise("sqrt(x0)", x), b.pointwise("mul(x0,2.0)", x)
    table = table_of(b.graph(root, kept), [floats(1, 8)])
    assert set(table.ranges) == {x, kept}
    assert table.left_out == {root: "has NaN or infinite numbers"}
    masked = table_of(b.graph(root, kept), [np.array([[-np.inf] + [1] * 7], np.float32)])
    assert not masked.ranges and set(masked.left_out) == {x, root, kept}


def test_one_picture_and_one_thread_or_two_and_any_order(tmp_path: Path) -> None:
    graph, _ = small_net()
    arrays = [floats(1, 3, 8, 8, seed=seed) for seed in range(4)]
    tables = [table_of(graph, arrays, threads=1), table_of(graph, arrays[::-1], threads=2), table_of(graph, arrays)]
    assert tables[0] == tables[1] == tables[2]
    assert table_of(graph, arrays[:1]).samples == 1


@pytest.mark.parametrize("chunk_bytes", [1, 2000, 1 << 30])
def test_pieces_give_the_same_histograms(chunk_bytes: int) -> None:
    graph, names = small_net()
    samples = list(samples_of(graph, [floats(1, 3, 8, 8, seed=seed) for seed in range(2)]))
    seen, whole = observe(graph, samples, chunk_bytes=chunk_bytes), observe(graph, samples)
    assert list(seen.histograms) == list(whole.histograms) == list(names.values())
    for name in names.values():
        np.testing.assert_array_equal(_counts(seen.histograms[name]), _counts(whole.histograms[name]))


def _counts(histogram: Histogram) -> Array:
    return histogram.spread().counts


def test_samples_of_several_sizes() -> None:
    b = Builder()
    x = b.input(1, 3, "h", "w")
    graph = b.graph(b.conv(x, 2, 3))
    table = table_of(graph, [floats(1, 3, size, size + 1) for size in (2, 3, 4, 5, 6, 2)])
    assert table.samples == 6 and len(table.ranges) == 2


def test_progress_is_told() -> None:
    graph, _ = small_net()
    told: list[tuple[int, int, str]] = []
    table_of(graph, [floats(1, 3, 8, 8)] * 2, progress=lambda *standing: told.append(standing))
    assert told == [(0, 100, "calibration data, sample 0"), (1, 100, "calibration data, sample 1"), (2, 100, "")]


def test_an_unknown_method() -> None:
    graph, _ = small_net()
    with pytest.raises(InputError, match="method: found 'best', needed one of min-max, percentile, mse, entropy"):
        table_of(graph, [floats(1, 3, 8, 8)], method="best")


@pytest.mark.parametrize("method", [None, "min-max", "percentile", "mse", "entropy"])
def test_a_trained_model(method: str | None, tmp_path: Path) -> None:
    pictures = load_pictures()[0][:20]
    np.savez(tmp_path / "pictures.npz", **{INPUT: pictures})
    stages: list[str] = []
    table = softneuro.calibrate(model_path(), tmp_path / "pictures.npz", samples=8, method=method, threads=1,
                                progress=lambda standing: stages.append(standing.stage))  # fmt: skip
    assert table.samples == 8 and table.model == model_path().name and len(table.model_sha256) == 64
    assert {found.method for found in table.ranges.values()} == {method} or method is None
    assert all(found.low <= 0 <= found.high for found in table.ranges.values())
    assert 1e-4 < max(found.error for found in table.ranges.values()) < (0.2 if method == "entropy" else 0.02)
    assert stages == ["import", *["calibrate"] * 9]
    graph = softneuro.tune(model_path(), time_limit=0).graph
    assert not table.unknown(graph)
    assert set(table.quantisations(graph)) == {*graph.inputs, *graph.producers()}


def test_a_model_with_free_sizes_runs_at_those_of_the_samples() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "k"]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([node], "net", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    table = softneuro.calibrate(model, [{"x": floats(2, 5)}, {"x": floats(3, 4)}])
    assert table.samples == 2 and table.model_sha256 == "" and table.ranges["y"].low == 0
    with pytest.raises(InputError, match=r"calibration data, sample 1: input 'x': found shape \(3,\) of rank 1"):
        softneuro.calibrate(model, [{"x": floats(2, 5)}, {"x": floats(3)}])


def test_free_sizes_that_only_samples_tell(tmp_path: Path) -> None:
    """Two poolings by 4 need 16 pixels: sizes of 1 would not do."""
    pools = [helper.make_node("MaxPool", [a], [b], kernel_shape=[4, 4], strides=[4, 4]) for a, b in (("x", "t"), ("t", "y"))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph(pools, "net", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "m.onnx")
    table = softneuro.calibrate(tmp_path / "m.onnx", (floats(1, 3, size, size) for size in (16, 24)))
    assert table.samples == 2 and set(table.ranges) == {"x", "t", "y"}
    assert len({found.quantisation for found in table.ranges.values()}) == 1


def test_sizes_that_only_the_run_tells() -> None:
    """What comes after a NonZero has no type before the run, and no range."""
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("NonZero", ["t"], ["at"]),
             helper.make_node("Cast", ["at"], ["f"], to=TensorProto.FLOAT), helper.make_node("Sqrt", ["f"], ["y"])]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("x", [4, 5]), ("y", None))]
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    assert set(softneuro.calibrate(model, [floats(4, 5)]).ranges) == {"x", "t"}
