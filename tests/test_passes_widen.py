"""Layers on 16-bit floats compute in float32: where casts stand, which layers stay, and that results keep within rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from graph_building import Builder, hinted, kinds, random_feeds
from half_models import half_model

from softneuro import reference
from softneuro.graph import Graph
from softneuro.importer.model import import_model
from softneuro.ops.conv import Conv
from softneuro.ops.gather import Gather
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.shape import ConstantOfShape
from softneuro.passes.pipeline import optimise
from softneuro.passes.widen import widen
from softneuro.types import DType

HALVES = (DType.F16, DType.BF16)
EPSILON = {DType.F16: 2.0**-10, DType.BF16: 2.0**-7}


def conv_net(half: DType) -> Graph:
    b = Builder()
    x = b.input(1, 3, 8, 8, dtype=half)
    weights = b.constant(b.rng.standard_normal((4, 3, 3, 3)).astype(np.float32).astype(half.numpy))
    y = b.pointwise("relu(x0)", b.layer(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, weights))
    return b.graph(y)


@pytest.mark.parametrize("half", HALVES)
def test_casts_stand_at_the_edges(half: DType) -> None:
    graph = widen(hinted(conv_net(half)))
    graph.verify()
    assert kinds(graph) == ["cast_f32(x0)", "conv", "relu(x0)", f"cast_{half}(x0)"]
    assert [a.dtype for a in graph.constants.values()] == [np.float32]
    assert graph.inputs["input0"].dtype is half


@pytest.mark.parametrize("half", HALVES)
def test_results_keep_type_and_are_as_near_as_rounding(half: DType) -> None:
    graph = conv_net(half)
    feeds = random_feeds(graph, {"input0": (1, 3, 8, 8)})
    exact = {name: value.astype(np.float64) for name, value in graph.constants.items()}
    wanted = reference.run(replace(graph, constants=exact), {k: v.astype(np.float64) for k, v in feeds.items()})
    for form in (widen(hinted(graph)), optimise(graph)):
        found = reference.run(form, feeds)
        for name, value in wanted.items():
            assert found[name].dtype == half.numpy
            np.testing.assert_allclose(found[name].astype(np.float64), value, rtol=EPSILON[half], atol=1e-5)


def test_float32_graphs_are_left_alone() -> None:
    b = Builder()
    graph = hinted(b.graph(b.pointwise("relu(x0)", b.input(3))))
    assert widen(graph) is graph


def test_a_table_of_embeddings_keeps_its_bytes() -> None:
    b = Builder()
    table = b.constant(b.rng.standard_normal((50, 8)).astype(np.float16))
    rows = b.layer(Gather(0), table, b.input(4, dtype=DType.I64))
    graph = widen(hinted(b.graph(b.pointwise("exp(x0)", rows))))
    assert kinds(graph) == ["gather", "cast_f32(x0)", "exp(x0)", "cast_f16(x0)"]
    assert [a.dtype for a in graph.constants.values()] == [np.float16]


def test_movements_between_computing_layers_stay_wide() -> None:
    b = Builder()
    x = b.layer(Transpose((1, 0)), b.pointwise("exp(x0)", b.input(2, 3, dtype=DType.F16)))
    graph = widen(hinted(b.graph(b.pointwise("neg(x0)", x))))
    assert kinds(graph) == ["cast_f32(x0)", "exp(x0)", "transpose", "neg(x0)", "cast_f16(x0)"]


def test_the_models_own_casts_vanish_between_computing_layers() -> None:
    b = Builder()
    x = b.pointwise("cast_f32(x0)", b.pointwise("exp(x0)", b.input(2, 3, dtype=DType.F16)))
    y = b.pointwise("cast_f16(x0)", b.layer(MatMul(), x, b.weights(3, 3)))
    graph = optimise(b.graph(b.pointwise("exp(x0)", y)))
    assert kinds(graph) == ["cast_f32(x0)", "exp(x0)", "matmul", "exp(x0)", "cast_f16(x0)"]


def test_a_rounding_that_the_model_asks_for_stays() -> None:
    b = Builder()
    x = b.input(40)
    graph = b.graph(b.pointwise("cast_f32(x0)", b.pointwise("cast_f16(x0)", x)))
    values = random_feeds(graph, {x: (40,)})
    found = reference.run(optimise(graph), values)[graph.outputs[0]]
    np.testing.assert_array_equal(found, values[x].astype(np.float16).astype(np.float32))


def test_a_programs_cast_does_not_round() -> None:
    b = Builder()
    graph = widen(hinted(b.graph(b.pointwise("cast_f16(x0);mul(t0,x1)", b.input(4), b.input(4, dtype=DType.F16)))))
    assert kinds(graph) == ["cast_f32(x0)", "cast_f32(x0);mul(t0,x1)", "cast_f16(x0)"]


def test_the_hosts_layers_and_makers_of_a_type_keep_it() -> None:
    b = Builder()
    node = onnx.helper.make_node("CumSum", ["input0", "input1"], ["output0"]).SerializeToString()
    zeros = b.layer(ConstantOfShape(DType.F16, 0.5), b.constant(np.array([3])))
    summed = b.layer(OnnxOp(node, (("", 20),)), b.pointwise("add(x0,x1)", b.input(3, dtype=DType.F16), zeros), b.constant(0))
    graph = widen(hinted(b.graph(b.pointwise("exp(x0)", summed))))
    graph.verify()
    assert [k for k in kinds(graph) if k in ("onnx_op", "exp(x0)")] == ["onnx_op", "exp(x0)"]
    (host,) = [layer for layer in graph.layers if isinstance(layer.op, OnnxOp)]
    assert "/" not in host.inputs[0]  # it reads the tensor of 16 bits


def test_free_sizes() -> None:
    b = Builder()
    x = b.input("n", 3, dtype=DType.F16)
    graph = b.graph(b.pointwise("tanh(x0)", b.layer(MatMul(), x, b.constant(np.ones((3, 2), np.float16)))))
    found = optimise(graph, hinted(graph).types)
    assert {a.dtype for a in found.constants.values()} == {np.dtype(np.float32)}
    assert reference.run(found, {x: np.ones((5, 3), np.float16)})[found.outputs[0]].shape == (5, 2)


def test_twin_of_an_onnx_model() -> None:
    helper = onnx.helper
    weights = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])], "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(weights, "w")])  # fmt: skip
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph = import_model(half_model(model))
    assert graph.inputs["x"].dtype is DType.F16
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float16)
    wanted = reference.run(import_model(model), {"x": x.astype(np.float32)})["y"]
    found = reference.run(optimise(graph, hinted(graph).types), {"x": x})["y"]
    np.testing.assert_allclose(found.astype(np.float32), wanted, atol=2e-3)
