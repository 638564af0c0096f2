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
        onnx.helper.make_node("Hardmax", ["x"], ["b"], name="one"),
        onnx.helper.make_node("Hardmax", ["b"], ["c"], name="two", doc_string="text"),
    ]
    first, second = import_model(model(nodes, {"x": normal(2, 3)}, ["c"])).layers
    assert first.op == second.op
    assert hash(first.op) == hash(second.op)


COLUMNS, PAIR = TensorType(DType.F32, (1, 5, 5)), TensorType(DType.I64, (2,))
SIZES = (np.array([5, 5]), np.array([1, 5]))


def columns_to_image() -> onnx.ModelProto:
    """A model whose output's shape depends on small inputs."""
    return one_node("Col2Im", {"x": normal(1, 5, 5)}, constants={"image": SIZES[0], "block": SIZES[1]})


def test_text_form() -> None:
    op = only_op(columns_to_image())
    bound = op.bind([COLUMNS, PAIR, PAIR], [None, *SIZES])
    assert bound is not None
    assert parse_op(format_op(bound.op)) == bound.op
    assert parse_op(format_op(op)) == op


def test_known_small_inputs_make_types_known() -> None:
    op, types = only_op(columns_to_image()), [COLUMNS, PAIR, PAIR]
    with pytest.raises(DynamicShape):
        op.infer(types)
    bound = op.bind(types, [None, *SIZES])
    assert bound is not None
    assert bound.inputs == (0, 1, 2)
    assert bound.op.infer(types) == (TensorType(DType.F32, (1, 1, 5, 5)),)
    assert bound.op.bind(types, [None, *SIZES]) is None


def test_types_that_need_no_values_leave_the_op_alone() -> None:
    x, places = normal(1, 1, 2, 2), np.arange(4).reshape(1, 1, 2, 2)
    op = only_op(one_node("MaxUnpool", {"x": x}, constants={"i": places}, kernel_shape=[2, 2], strides=[2, 2]))
    types = [TensorType.of(x), TensorType.of(places)]
    assert op.bind(types, [None, places]) is None
    assert op.infer(types) == (TensorType(DType.F32, (1, 1, 4, 4)),)


def test_data_dependent_shape() -> None:
    op = only_op(one_node("NonZero", {"x": normal(2, 5)}))
    assert op.bind([X], [None]) is None
    with pytest.raises(DynamicShape, match="depends on the data"):
        op.infer([X])


def test_specialised_graph_has_types() -> None:
    graph = import_model(columns_to_image())
    assert specialise(graph, {"x": (1, 5, 5)}).types["y0"] == TensorType(DType.F32, (1, 1, 5, 5))


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
    proto = one_node("Unique", {"x": normal(2, 3)}, axis=7)
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
