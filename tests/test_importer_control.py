"""If, Loop and Scan: bodies, captures, binding, types, and the plain form that plans keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softneuro import reference
from softneuro.control import CONTROL_OPS, Call, If, Loop, Scan
from softneuro.errors import DynamicShape, InputError, ModelError
from softneuro.graph import Graph
from softneuro.importer.model import import_model
from softneuro.inline import inlined
from softneuro.specialise import specialise
from softneuro.types import Array, DType, TensorType
from tests.onnx_build import model, normal

F32, I64 = DType.F32, DType.I64
X = normal(2, 3)
TRUE, FALSE = np.array(True), np.array(False)


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), list(outputs), name=f"make_{outputs[0]}", **attributes)


def body(nodes: Sequence[onnx.NodeProto], inputs: dict[str, int], outputs: dict[str, list[int | None] | None]) -> onnx.GraphProto:
    declared = [helper.make_tensor_value_info(name, element, None) for name, element in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    return helper.make_graph(nodes, "body", declared, results)


def branches(then: Sequence[onnx.NodeProto], other: Sequence[onnx.NodeProto]) -> dict[str, onnx.GraphProto]:
    return {"then_branch": body(then, {}, {"b": None}), "else_branch": body(other, {}, {"b": None})}


def if_model(then: Sequence[onnx.NodeProto], other: Sequence[onnx.NodeProto]) -> Graph:
    """y = if c: then else: other, over x and a computed h = relu(x), with a constant w around."""
    nodes = [node("Relu", ["x"], ["h"]), node("If", ["c"], ["y"], **branches(then, other))]
    return import_model(model(nodes, {"x": X, "c": TRUE}, ["y"], constants={"w": np.array(2, np.float32)}))


SAME = if_model([node("Mul", ["x", "w"], ["b"])], [node("Add", ["h", "x"], ["t"]), node("Neg", ["t"], ["b"])])
DIFFERENT = if_model([node("Mul", ["x", "w"], ["b"])], [node("ReduceSum", ["h"], ["b"], keepdims=0)])


def test_if_runs_the_right_branch() -> None:
    layer = SAME.layers[-1]
    assert isinstance(layer.op, If)
    assert layer.inputs == ("c", "h", "x")
    assert layer.op.captures == ("h", "x")
    assert list(layer.op.then_branch.constants) == ["w"]
    np.testing.assert_allclose(reference.run(SAME, {"x": X, "c": TRUE})["y"], X * 2)
    np.testing.assert_allclose(reference.run(SAME, {"x": X, "c": FALSE})["y"], -(np.maximum(X, 0) + X))


def test_if_branches_of_different_shapes() -> None:
    assert reference.run(DIFFERENT, {"x": X, "c": TRUE})["y"].shape == (2, 3)
    assert reference.run(DIFFERENT, {"x": X, "c": FALSE})["y"].shape == ()


def test_if_with_known_condition_binds_to_its_branch() -> None:
    op = DIFFERENT.layers[-1].op
    x = TensorType(F32, (2, 3))
    types = [TensorType(DType.BOOL, ()), x, x]
    bound = op.bind(types, [FALSE, None, None])
    assert bound is not None
    assert isinstance(bound.op, Call)
    assert bound.inputs == (1,)
    assert bound.op.infer([x]) == (TensorType(F32, ()),)
    assert op.bind(types, [None] * 3) is None


def test_if_types() -> None:
    x = TensorType(F32, (2, 3))
    types = [TensorType(DType.BOOL, ()), x, x]
    assert SAME.layers[-1].op.infer(types) == (x,)
    with pytest.raises(DynamicShape, match="the branches give"):
        DIFFERENT.layers[-1].op.infer(types)


def test_if_types_are_those_of_the_branch_that_takes_the_inputs() -> None:
    graph = if_model([node("MatMul", ["x", "x"], ["b"])], [node("ReduceSum", ["h"], ["b"], keepdims=0)])
    x = TensorType(F32, (2, 3))
    assert graph.layers[-1].op.infer([TensorType(DType.BOOL, ()), x, x]) == (TensorType(F32, ()),)


def test_if_refuses_a_condition_of_many_elements() -> None:
    with pytest.raises(InputError, match="needed one element"):
        reference.run(SAME, {"x": X, "c": np.array([True, False])})


def test_nested_if_captures_through_both_levels() -> None:
    inner = node("If", ["c"], ["b"], **branches([node("Abs", ["x"], ["b"])], [node("Neg", ["x"], ["b"])]))
    graph = if_model([inner], [node("Identity", ["w"], ["b"])])
    np.testing.assert_array_equal(reference.run(graph, {"x": X, "c": TRUE})["y"], np.abs(X))
    np.testing.assert_array_equal(reference.run(graph, {"x": X, "c": FALSE})["y"], np.float32(2))


def test_branch_that_makes_a_name_of_the_outer_graph() -> None:
    graph = if_model([node("Abs", ["x"], ["h"]), node("Neg", ["h"], ["b"])], [node("Identity", ["h"], ["b"])])
    np.testing.assert_array_equal(reference.run(graph, {"x": X, "c": TRUE})["y"], -np.abs(X))
    np.testing.assert_array_equal(reference.run(graph, {"x": X, "c": FALSE})["y"], np.maximum(X, 0))


def loop_model(count: bool = True, condition: bool = True, *, stop_at: float = 1e9) -> Graph:
    """total += x[i]-like sums: state s = s + k, k captured; collects s; stops when s is not below stop_at."""
    nodes = [node("Add", ["s", "k"], ["s2"]), node("Less", ["s2", "limit"], ["go"]), node("Identity", ["s2"], ["out"])]
    inner = body(nodes, {"i": TensorProto.INT64, "was": TensorProto.BOOL, "s": TensorProto.FLOAT}, {})
    inner.output.extend(
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s2", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, [2]),
        ]
    )
    inner.node[1].input[0] = "first"
    inner.node.insert(1, node("ReduceMax", ["s2"], ["first"], keepdims=0))
    inputs = ["n" if count else "", "c" if condition else "", "s0"]
    feeds = {"n": np.array(3), "c": TRUE, "s0": np.zeros(2, np.float32), "k": np.array([1, 2], np.float32)}
    used = {name: value for name, value in feeds.items() if name in inputs or name == "k"}
    proto = model(
        [node("Loop", inputs, ["last", "all"], body=inner)],
        used,
        ["last", "all"],
        opset=17,
        constants={"limit": np.array(stop_at, np.float32)},
    )
    return import_model(proto)


def loop_feeds(graph: Graph, count: int = 3, condition: Array = TRUE) -> dict[str, Array]:
    feeds = {"n": np.array(count), "c": condition, "s0": np.zeros(2, np.float32), "k": np.array([1, 2], np.float32)}
    return {name: feeds[name] for name in graph.inputs}


def test_loop_counts_and_collects() -> None:
    graph = loop_model()
    found = reference.run(graph, loop_feeds(graph))
    np.testing.assert_array_equal(found["last"], [3, 6])
    np.testing.assert_array_equal(found["all"], [[1, 2], [2, 4], [3, 6]])


@pytest.mark.parametrize("count", [True, False], ids=["with_count", "without_count"])
@pytest.mark.parametrize("condition", [True, False], ids=["with_condition", "without_condition"])
def test_loop_stops_by_condition(count: bool, condition: bool) -> None:
    graph = loop_model(count, condition, stop_at=4)
    np.testing.assert_array_equal(reference.run(graph, loop_feeds(graph, 100))["all"], [[1, 2], [2, 4]])


@pytest.mark.parametrize("count, condition", [(0, TRUE), (3, FALSE)], ids=["count_0", "condition_false"])
def test_loop_without_iterations_collects_nothing_of_the_right_type(count: int, condition: Array) -> None:
    graph = loop_model()
    found = reference.run(graph, loop_feeds(graph, count, condition))
    np.testing.assert_array_equal(found["last"], [0, 0])
    assert (found["all"].shape, found["all"].dtype) == ((0, 2), np.float32)


def test_loop_shape_is_dynamic() -> None:
    graph = loop_model()
    assert "last" not in specialise(graph, {name: value.shape for name, value in loop_feeds(graph).items()}).types


def scan_model(**attributes: Any) -> Graph:
    """Running sums of x's rows, each also doubled by a captured factor."""
    nodes = [node("Add", ["s", "row"], ["s2"]), node("Mul", ["s2", "w"], ["out"])]
    inner = body(nodes, {"s": TensorProto.FLOAT, "row": TensorProto.FLOAT}, {"s2": [3], "out": [3]})
    proto = model(
        [node("Scan", ["s0", "x"], ["last", "all"], body=inner, num_scan_inputs=1, **attributes)],
        {"s0": np.zeros(3, np.float32), "x": normal(4, 3)},
        ["last", "all"],
        constants={"w": np.array(2, np.float32)},
    )
    return import_model(proto)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scan(backwards: bool, axis: int) -> None:
    graph = scan_model(
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=[int(backwards)],
        scan_output_directions=[int(backwards)],
    )
    rows = normal(4, 3)
    x = np.ascontiguousarray(np.moveaxis(rows, 0, axis))
    found = reference.run(graph, {"s0": np.zeros(3, np.float32), "x": x})
    sums = np.cumsum(rows[::-1], 0)[::-1] if backwards else np.cumsum(rows, 0)
    np.testing.assert_allclose(found["last"], rows.sum(0), rtol=1e-5)
    np.testing.assert_allclose(found["all"], np.moveaxis(2 * sums, 0, axis), rtol=1e-5)
    layer = graph.layers[-1]
    vector = TensorType(F32, (3,))
    types = [vector, TensorType.of(x)]
    assert layer.op.infer(types) == (vector, TensorType.of(found["all"]))


def test_scan_without_slices() -> None:
    found = reference.run(scan_model(), {"s0": np.ones(3, np.float32), "x": np.zeros((0, 3), np.float32)})
    np.testing.assert_array_equal(found["last"], np.ones(3))
    assert found["all"].shape == (0, 3)


def test_batched_scan_of_opset_8_stops_at_lengths() -> None:
    inner = body(
        [node("Add", ["s", "row"], ["s2"]), node("Identity", ["s2"], ["out"])],
        {"s": TensorProto.FLOAT, "row": TensorProto.FLOAT},
        {"s2": [2], "out": [2]},
    )
    x, start = normal(2, 4, 2), np.zeros((2, 2), np.float32)
    proto = model(
        [node("Scan", ["l", "s0", "x"], ["last", "all"], body=inner, num_scan_inputs=1)],
        {"l": np.array([4, 2]), "s0": start, "x": x},
        ["last", "all"],
        opset=8,
    )
    found = reference.run(import_model(proto), {"l": np.array([4, 2]), "s0": start, "x": x})
    sums = np.cumsum(x, 1)
    np.testing.assert_allclose(found["last"], [sums[0, 3], sums[1, 1]], rtol=1e-5)
    sums[1, 2:] = 0
    np.testing.assert_allclose(found["all"], sums, rtol=1e-5)


@pytest.mark.parametrize("graph", [SAME, loop_model(), scan_model()], ids=["if", "loop", "scan"])
def test_plain_form(graph: Graph) -> None:
    op = graph.layers[-1].op
    assert isinstance(op, (If, Loop, Scan))
    fields = json.loads(json.dumps(op.body_fields()))
    again = CONTROL_OPS[op.name].from_bodies(fields, op.bodies())
    assert vars(again) == vars(op)


def called(inner: Graph, outputs: tuple[str, ...]) -> tuple[Graph, Graph]:
    """A graph that calls ``inner`` twice in a row, and the same with the calls inlined."""
    outer = import_model(model([node("Relu", ["x"], ["h"])], {"x": X}, ["h"]))
    first = replace(outer.layers[0], name="first", op=Call(inner), inputs=("h",), outputs=outputs)
    second = replace(first, name="second", inputs=outputs[:1], outputs=tuple(f"{name}2" for name in outputs))
    whole = replace(outer, layers=(*outer.layers, first, second), outputs=(*first.outputs, *second.outputs))
    layers, constants = [*outer.layers], {}
    for layer in (first, second):
        more, values = inlined(layer, inner)
        layers.extend(more)
        constants.update(values)
    return whole, replace(whole, layers=tuple(layers), constants=constants)


INNER = {
    "chain": model([node("Add", ["a", "w"], ["t"]), node("Neg", ["t"], ["b"])], {"a": X}, ["b"], constants={"w": normal(3)}),
    "input_as_output": model([node("Neg", ["a"], ["b"])], {"a": X}, ["b", "a"]),
    "constant_as_output": model([node("Neg", ["a"], ["b"])], {"a": X}, ["b", "w"], constants={"w": normal(3)}),
    "one_output_twice": model([node("Neg", ["a"], ["b"])], {"a": X}, ["b", "b"]),
    "output_read_inside": model([node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["c"])], {"a": X}, ["b", "c"]),
}


@pytest.mark.parametrize("proto", INNER.values(), ids=INNER.keys())
def test_inlined(proto: onnx.ModelProto) -> None:
    inner = import_model(proto)
    whole, flat = called(inner, ("p", "q")[: len(inner.outputs)])
    flat.verify()
    assert not any(isinstance(layer.op, Call) for layer in flat)
    for name, value in reference.run(whole, {"x": X}).items():
        np.testing.assert_array_equal(reference.run(flat, {"x": X})[name], value)


def test_loop_body_without_condition_output() -> None:
    inner = body([], {"i": TensorProto.INT64}, {})
    with pytest.raises(ModelError, match="its body has"):
        import_model(model([node("Loop", ["n"], ["y"], body=inner)], {"n": np.array(1)}, ["y"]))


def test_body_that_reads_nothing_anyone_makes() -> None:
    with pytest.raises(ModelError, match="reads 'ghost', which is made by no node"):
        if_model([node("Abs", ["ghost"], ["b"])], [node("Abs", ["x"], ["b"])])


def test_sequence_map_with_captures() -> None:
    inner = body([node("Add", ["e", "x"], ["b"])], {"e": TensorProto.FLOAT}, {"b": None})
    nodes = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceMap", ["s"], ["y"], body=inner)]
    (found,) = reference.run(import_model(model(nodes, {"x": X}, ["y"])), {"x": X})["y"]
    np.testing.assert_array_equal(found, X + X)
