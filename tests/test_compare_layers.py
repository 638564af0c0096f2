"""Layer by layer: tensors of one name mean one thing on both sides, and the first departure is where it was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import softneuro
from softneuro.compare import (
    LayerDifference,
    Tensors,
    compare_layers,
    first_departure,
    tensors_of_graph,
    tensors_of_model,
    tensors_of_onnxruntime,
    tensors_of_session,
)
from softneuro.demo.data import INPUT, load_pictures, model_path
from softneuro.types import Array

CONVS = ("stem", "widen", "first.0", "first.1", "shrink.depthwise", "shrink.pointwise", "second", "features")
Feeds = dict[str, Array]


@pytest.fixture(scope="module")
def session() -> softneuro.Session:
    return softneuro.Session(softneuro.tune(model_path(), threads=1, time_limit=0))


@pytest.fixture(scope="module")
def feeds() -> Feeds:
    return {INPUT: load_pictures()[0][:1]}


def corrupted(folder: Path, layer: str, value: float | None) -> Path:
    """The demo model with the weights of one filter of a layer changed: to ``value``, or doubled with one added."""
    proto = onnx.load(model_path())
    node = next(node for node in proto.graph.node if node.name == layer)
    weights = next(tensor for tensor in proto.graph.initializer if tensor.name == node.input[1])
    array = numpy_helper.to_array(weights).copy()
    filter_ = array[len(array) // 2]
    filter_[...] = 2 * filter_ + 1 if value is None else value
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    onnx.save(proto, folder / "corrupted.onnx")
    return folder / "corrupted.onnx"


def first(rows: list[LayerDifference], tolerance: float = 1e-4) -> str | None:
    found = first_departure(rows, tolerance)
    return None if found is None else found.layer


@pytest.mark.parametrize("peer", ["onnxruntime", "reference", "graph", "plan"])
def test_no_layer_departs(session: softneuro.Session, feeds: Feeds, peer: str) -> None:
    if peer == "onnxruntime":
        pytest.importorskip("onnxruntime")
    there = {
        "onnxruntime": lambda: tensors_of_onnxruntime(model_path(), feeds, 1),
        "reference": lambda: tensors_of_model(model_path(), feeds),
        "graph": lambda: tensors_of_graph(session.plan.graph, feeds),
        "plan": lambda: tensors_of_session(session, feeds),
    }[peer]()
    rows = list(compare_layers(session, feeds, there))
    assert [row.layer for row in rows if row.op == "conv"] == [f"{name}.conv" for name in CONVS]
    assert all(row.difference is not None and row.difference.needed < 1e-5 for row in rows)
    assert {row.layer: row.routine for row in rows}["stem.conv"].startswith("conv.")
    assert first(rows) is None


@pytest.mark.parametrize("layer", [*(f"{name}.conv" for name in CONVS), "logits"])
@pytest.mark.parametrize("value", [None, np.nan], ids=["wrong", "nan"])
def test_the_layer_with_a_wrong_weight_departs_first(session: softneuro.Session, feeds: Feeds, tmp_path: Path, layer: str,
                                                     value: float | None) -> None:
    pytest.importorskip("onnxruntime")
    model = corrupted(tmp_path, layer, value)
    rows = list(compare_layers(session, feeds, tensors_of_onnxruntime(model, feeds, 1)))
    assert first(rows) == layer
    if value is not None:
        difference = first_departure(rows, 1e-4).difference  # type: ignore[union-attr]
        assert difference.note == "NaN there only" and difference.nan_there > 0 == difference.nan_here


def test_the_first_departure_between_two_plans(session: softneuro.Session, feeds: Feeds, tmp_path: Path) -> None:
    other = softneuro.Session(softneuro.tune(corrupted(tmp_path, "second.conv", None), threads=1, time_limit=0))
    assert first(list(compare_layers(other, feeds, tensors_of_session(session, feeds)))) == "second.conv"


@pytest.mark.parametrize("chunk_bytes", [0, 1, 10_000, 50_000])
def test_chunks_change_nothing(session: softneuro.Session, feeds: Feeds, chunk_bytes: int) -> None:
    whole = tensors_of_graph(session.plan.graph, feeds)
    asked: list[list[str]] = []

    def values(names: list[str]) -> dict[str, Array]:
        asked.append(list(names))
        return dict(whole.values(names))

    rows = list(compare_layers(session, feeds, Tensors(whole.outputs, whole.names, values), chunk_bytes))  # type: ignore[arg-type]
    assert rows == list(compare_layers(session, feeds, whole))
    assert [name for names in asked for name in names] == [row.tensor for row in rows]
    assert len(asked) == len(rows) if chunk_bytes < 2 else 1 < len(asked) < len(rows)


def test_every_layer_keeps_its_routine(session: softneuro.Session, feeds: Feeds) -> None:
    """Tensors given out change neither choices nor values: the plan's output stays the same to the bit."""
    concrete = softneuro.tune(model_path(), threads=1, time_limit=0)
    names = [layer.outputs[0] for layer in concrete.graph.layers]
    found = tensors_of_session(session, feeds).values(names)
    np.testing.assert_array_equal(found["logits"], session.run(feeds)["logits"])


def test_tensors_that_only_one_side_has(session: softneuro.Session, feeds: Feeds) -> None:
    whole = tensors_of_graph(session.plan.graph, feeds)
    some = Tensors(whole.outputs, lambda: frozenset({"pool", "logits", "elsewhere"}), whole.values)
    rows = list(compare_layers(session, feeds, some))
    assert [row.tensor for row in rows if row.difference is not None] == ["pool", "logits"]
    assert first(rows) is None
    none = Tensors(whole.outputs, frozenset, whole.values)
    assert all(row.difference is None for row in compare_layers(session, feeds, none))


def test_layers_of_free_sizes_and_branches(tmp_path: Path) -> None:
    """An If that the plan looks into has tensors inside that onnxruntime's graph does not name."""
    pytest.importorskip("onnxruntime")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    inner = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    then = helper.make_graph([helper.make_node("Exp", ["r"], ["a"]), helper.make_node("Softmax", ["a"], ["b"])], "t", [], [inner])
    other = helper.make_graph([helper.make_node("Neg", ["r"], ["b"])], "e", [], [inner])
    nodes = [
        helper.make_node("Softmax", ["x"], ["r"], axis=-1),
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Size", ["s"], ["rank"]),
        helper.make_node("Equal", ["rank", "two"], ["c"]),
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Softmax", ["i"], ["y"], axis=0),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(2), "two")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    session = softneuro.Session(softneuro.tune(tmp_path / "m.onnx", threads=1, time_limit=0))
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)}
    rows = list(compare_layers(session, feeds, tensors_of_onnxruntime(tmp_path / "m.onnx", feeds, 1)))
    compared = {row.tensor: row.difference for row in rows}
    assert {name for name, found in compared.items() if found is not None} == {"r", "i", "y"}
    assert len(compared) > 3 and first(rows) is None
