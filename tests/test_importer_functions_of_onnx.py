"""Operators that ONNX defines as functions, and norms, become layers that have native routines."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import softneuro
from softneuro import reference
from softneuro.importer.model import import_model
from softneuro.ops.norm import InstanceNorm
from softneuro.ops.onnx_op import OnnxOp
from tests.conformance_cases import assert_same, node_cases
from tests.onnx_build import normal, one_node

NATIVE = re.compile(
    "test_(affine_grid|center_crop_pad|group_norm|blackman|hann|hamming|mvn|nllloss_NC|rms_norm|rotary|swiglu|causal_conv"
    "|attention_4d|attention_3d|instancenorm|lrn|bitwise|bitshift|reduce_log_sum|sce_mean|layer_normalization_2d)"
)
CASES = {name: case for name, case in node_cases().items() if NATIVE.match(name) and "expanded" not in name}


@pytest.mark.parametrize("name", CASES)
def test_no_layer_is_left_to_the_reference(name: str) -> None:
    case = CASES[name]
    graph = import_model(case.model)
    assert [layer.op.op_type for layer in graph.layers if isinstance(layer.op, OnnxOp)] == []
    for data in case.data_sets:
        found = reference.run(graph, data.feeds)
        for output, want in zip(case.output_names, data.outputs, strict=True):
            assert_same(found[output], want, case.rtol, case.atol)


def attention(batch: int | str, length: int | str) -> onnx.ModelProto:
    """Self-attention of 2 heads over (batch, length, 16)."""
    shape = [batch, length, 16]
    node = onnx.helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1)
    inputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "qkv"]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph([node], "attention", inputs, [output])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=10)


def test_symbolic_sizes_stay_symbolic() -> None:
    """One plan for every batch and length, against a model of the sizes themselves by onnx's reference."""
    first = (2, 5, 16)
    plan = softneuro.tune(attention("n", "t"), shapes=dict.fromkeys("qkv", first), effort=0)
    session = softneuro.Session(plan)
    rng = np.random.default_rng(3)
    for shape in (first, (1, 1, 16), (3, 9, 16)):
        feeds = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
        (want,) = onnx.reference.ReferenceEvaluator(attention(*shape[:2])).run(None, feeds)
        np.testing.assert_allclose(session.run(feeds)["y"], want, rtol=1e-5, atol=1e-6)


def test_types_that_are_not_known_leave_the_node_alone() -> None:
    """The output of an operator of unknown rank: Reshape to a computed shape."""
    reshape = onnx.helper.make_node("Reshape", ["x", "s"], ["q"])
    node = onnx.helper.make_node("Attention", ["q", "q", "q"], ["y"])
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [48]),
              onnx.helper.make_tensor_value_info("s", onnx.TensorProto.INT64, None)]  # fmt: skip
    graph = onnx.helper.make_graph([reshape, node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    imported = import_model(proto)
    feeds = {"x": np.arange(48, dtype=np.float32) / 48, "s": np.array([1, 2, 3, 8])}
    (found,) = reference.run(imported, feeds).values()
    assert found.shape == (1, 2, 3, 8)


@pytest.mark.parametrize("opset", [18, 21])
def test_groups_are_the_channels_of_an_instance_norm(opset: int) -> None:
    x = normal(2, 6, 4, 5)
    count = 3 if opset < 21 else 6
    constants = {"scale": normal(count), "bias": normal(count)}
    graph = import_model(one_node("GroupNormalization", {"x": x}, constants=constants, opset=opset, num_groups=3))
    assert any(isinstance(layer.op, InstanceNorm) for layer in graph.layers)
    rows = x.reshape(2, 3, -1)
    normed = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    scale, bias = (np.repeat(c, 6 // count)[:, None, None] for c in constants.values())
    (found,) = reference.run(graph, {"x": x}).values()
    np.testing.assert_allclose(found, normed.reshape(x.shape) * scale + bias, rtol=1e-4, atol=1e-5)


def test_statistics_that_are_computed_make_batch_norm_native() -> None:
    feeds = {"x": normal(2, 3, 4, 5), "s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))}
    session = softneuro.Session(softneuro.tune(one_node("BatchNormalization", feeds), effort=0))
    x, s, b, m, v = (a if a.ndim > 1 else a[:, None, None] for a in feeds.values())
    (found,) = session.run(feeds).values()
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-4, atol=1e-5)
