"""Forms of operators that only old opsets have, and outputs that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from softneuro.importer.model import import_model
from softneuro.types import Array
from tests.importer_cases import F, assert_outputs, ints, x
from tests.onnx_build import model, normal, one_node

LEGACY: dict[str, tuple[onnx.ModelProto, dict[str, Array], Array]] = {}
_A, _C = normal(2, 3, 4, 5), normal(3, 4, seed=1)
LEGACY["add_at_axis"] = (
    one_node("Add", {"a": _A, "b": _C}, opset=6, broadcast=1, axis=1),
    {"a": _A, "b": _C},
    _A + _C[:, :, None],
)
LEGACY["mul_at_negative_axis"] = (
    one_node("Mul", {"a": _A, "b": _C}, opset=6, broadcast=1, axis=-3),
    {"a": _A, "b": _C},
    _A * _C[:, :, None],
)
LEGACY["sub_suffix"] = (
    one_node("Sub", {"a": _A, "b": _A[0, 0]}, opset=1, broadcast=1),
    {"a": _A, "b": _A[0, 0]},
    _A - _A[0, 0],
)
LEGACY["prelu_channel_vector"] = (
    one_node("PRelu", {"a": _A, "b": _C[:, 0]}, opset=6),
    {"a": _A, "b": _C[:, 0]},
    np.where(_A < 0, _A * _C[:, :1, None], _A),
)
LEGACY["reshape_attribute"] = (one_node("Reshape", {"a": _A}, opset=1, shape=[0, -1]), {"a": _A}, _A.reshape(2, -1))
LEGACY["pad_paddings"] = (
    one_node("Pad", {"a": _C}, opset=1, paddings=[1, 0, 0, 2]),
    {"a": _C},
    np.pad(_C, ((1, 0), (0, 2))),
)
LEGACY["concat_default_axis"] = (
    one_node("Concat", {"a": _C, "b": _C}, opset=1),
    {"a": _C, "b": _C},
    np.concatenate([_C, _C], 1),
)
LEGACY["cast_named_type"] = (one_node("Cast", {"a": _C}, opset=1, to="INT32"), {"a": _C}, _C.astype(np.int32))
LEGACY["upsample_factors"] = (
    one_node("Upsample", {"a": _A}, opset=1, height_scale=2.0, width_scale=3.0),
    {"a": _A},
    _A.repeat(2, 2).repeat(3, 3),
)
LEGACY["gemm_broadcast"] = (
    one_node("Gemm", {"a": _C, "b": _C.T.copy(), "c": _C[:, 0]}, opset=6, broadcast=1),
    {"a": _C, "b": _C.T.copy(), "c": _C[:, 0]},
    _C @ _C.T + _C[:, 0],
)
LEGACY["batch_norm_consumed_inputs"] = (
    one_node(
        "BatchNormalization",
        {"a": _A},
        opset=1,
        constants={n: np.full(3, v, F) for n, v in zip("sbmv", (2, 1, 0, 1), strict=True)},
        consumed_inputs=[0, 0, 0, 1, 1],
        is_test=1,
        epsilon=0.0,
    ),
    {"a": _A},
    _A * 2 + 1,
)


@pytest.mark.parametrize("proto, feeds, want", LEGACY.values(), ids=LEGACY.keys())
def test_operators_before_opset_7(proto: onnx.ModelProto, feeds: dict[str, Array], want: Array) -> None:
    graph = import_model(proto)
    assert all(layer.op.name != "onnx_op" for layer in graph)
    assert_outputs(graph, feeds, [want])


def test_unread_outputs_do_not_need_the_reference() -> None:
    node = onnx.helper.make_node("Dropout", ["x"], ["y", "mask"])
    pool = onnx.helper.make_node("MaxPool", ["y"], ["z", "indices"], kernel_shape=[2, 2])
    feeds = x(1, 1, 4, 4)
    graph = import_model(model([node, pool], feeds, ["z"], opset=11))
    assert [(layer.op.name, layer.outputs) for layer in graph] == [("identity", ("y",)), ("pool", ("z",))]


@pytest.mark.parametrize(
    "attributes, value",
    [
        ({"value_float": 1.5}, np.array(1.5, F)),
        ({"value_floats": [1.0, 2.0]}, np.array([1, 2], F)),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, ints(3, 4)),
        ({"value": onnx.numpy_helper.from_array(normal(2, 3))}, normal(2, 3)),
    ],
    ids=["float", "floats", "int", "ints", "tensor"],
)
def test_constant_forms(attributes: dict[str, Any], value: Array) -> None:
    graph = import_model(one_node("Constant", {}, **attributes))
    assert graph.layers == ()
    np.testing.assert_array_equal(graph.constants["y0"], value)
    assert graph.constants["y0"].dtype == value.dtype


def test_same_dropout_with_training_input_runs_in_the_reference() -> None:
    proto = one_node("Dropout", {**x(3), "r": np.array(0.0, F), "t": np.array(True)})
    assert [layer.op.name for layer in import_model(proto)] == ["onnx_op"]
