"""OnnxOp: operators without a class of their own, their types and their values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from softneuro import reference
from softneuro.errors import DynamicShape, InputError
from softneuro.importer.model import import_model
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.text import format_op, parse_op
from softneuro.specialise import specialise
from softneuro.types import DType, TensorType
from tests.onnx_build import model, normal, one_node

X = TensorType(DType.F32, (2, 5))


def only_op(proto: onnx.ModelProto) -> OnnxOp:
    (layer,) = import_model(proto).layers
    assert isinstance(layer.op, OnnxOp)
    return layer.op


def test_equal_layers_are_equal_values() -> None:
    nodes = [
        onnx.helper.make_node("CumSum", ["x", "a"], ["b"], name="one"),
        onnx.helper.make_node("CumSum", ["b", "a"], ["c"], name="two", doc_string="text"),
    ]
    first, second = import_model(model(nodes, {"x": normal(2, 3)}, ["c"], constants={"a": np.array(1)})).layers
    assert first.op == second.op
    assert hash(first.op) == hash(second.op)


def test_text_form() -> None:
    op = only_op(one_node("TopK", {"x": normal(2, 5)}, constants={"k": np.array([2])}, outputs=2))
    bound = op.bind([X, TensorType(DType.I64, (1,))], [None, np.array([2])])
    assert bound is not None
    assert parse_op(format_op(bound.op)) == bound.op
    assert parse_op(format_op(op)) == op


def test_known_small_inputs_make_types_known() -> None:
    op, k = (
        only_op(one_node("TopK", {"x": normal(2, 5)}, constants={"k": np.array([2])}, outputs=2)),
        TensorType(DType.I64, (1,)),
    )
    with pytest.raises(DynamicShape):
        op.infer([X, k])
    bound = op.bind([X, k], [None, np.array([2])])
    assert bound is not None
    assert bound.inputs == (0, 1)
    assert bound.op.infer([X, k]) == (TensorType(DType.F32, (2, 2)), TensorType(DType.I64, (2, 2)))
    assert bound.op.bind([X, k], [None, np.array([2])]) is None


def test_types_that_need_no_values_leave_the_op_alone() -> None:
    op = only_op(one_node("CumSum", {"x": normal(2, 5)}, constants={"a": np.array(1)}))
    types = [X, TensorType(DType.I64, ())]
    assert op.bind(types, [None, np.array(1)]) is None
    assert op.infer(types) == (X,)


def test_data_dependent_shape() -> None:
    op = only_op(one_node("NonZero", {"x": normal(2, 5)}))
    assert op.bind([X], [None]) is None
    with pytest.raises(DynamicShape, match="depends on the data"):
        op.infer([X])


def test_specialised_graph_has_types() -> None:
    graph = import_model(one_node("TopK", {"x": normal(2, 5)}, constants={"k": np.array([2])}, outputs=2))
    assert specialise(graph, {"x": (2, 5)}).types["y0"] == TensorType(DType.F32, (2, 2))


def test_outputs_left_out_keep_their_places() -> None:
    proto = one_node("Unique", {"x": np.array([2, 1, 1], np.float32)}, outputs=4)
    proto.graph.node[0].output[1] = ""
    del proto.graph.output[1]
    found = reference.run(import_model(proto), {"x": np.array([2, 1, 1], np.float32)})
    assert {name: value.tolist() for name, value in found.items()} == {"y0": [1, 2], "y2": [1, 0, 0], "y3": [2, 1]}


def test_one_tensor_read_twice() -> None:
    node = onnx.helper.make_node("BitShift", ["x", "x"], ["y"], direction="LEFT")
    x = np.array([1, 2, 3], np.uint8)
    assert reference.run(import_model(model([node], {"x": x}, ["y"])), {"x": x})["y"].tolist() == [2, 8, 24]


def test_failing_reference_is_one_sentence() -> None:
    proto = one_node("GatherND", {"x": normal(2, 3)}, constants={"i": np.array([[9]])})
    with pytest.raises(InputError, match=r"layer 'the_node' .*onnx's reference implementation") as caught:
        reference.run(import_model(proto), {"x": normal(2, 3)})
    assert "\n" not in str(caught.value)


def test_sequences_and_strings_pass_through() -> None:
    nodes = [
        onnx.helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        onnx.helper.make_node("Identity", ["s"], ["t"]),
        onnx.helper.make_node("SequenceAt", ["t", "i"], ["y"]),
    ]
    graph = import_model(model(nodes, {"x": normal(3)}, ["y", "t"], constants={"i": np.array(1)}))
    found = reference.run(graph, {"x": normal(3)})
    np.testing.assert_array_equal(found["y"], normal(3))
    assert isinstance(found["t"], list)
    text = np.array(["b", "a"], object)
    concat = import_model(one_node("StringConcat", {}, constants={"x": text}, order=["x", "x"]))
    assert reference.run(concat, {})["y0"].tolist() == ["bb", "aa"]
