"""Graphs inside of layers run by kernels: branches chosen at run time, loops and scans, changing shapes, threads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_build import normal

from softneuro import control, reference
from softneuro.importer.model import import_model
from softneuro.runtime import Session, bodies
from softneuro.tuning.tune import tune
from softneuro.types import Array

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Feeds = Mapping[str, Array]


def value(name: str, dtype: int = FLOAT, dims: list[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: str, **weights: Array) -> onnx.ModelProto:
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "m", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def branch(kind: str, weights: str, result: str, *, length: bool = False) -> onnx.GraphProto:
    nodes = [helper.make_node("MatMul", ["x", weights], ["m"]), helper.make_node(kind, ["m"], ["r"])]
    nodes.append(helper.make_node("Concat", ["r", "r"], [result], axis=0) if length else helper.make_node("Neg", ["r"], [result]))
    return helper.make_graph(nodes, kind, [], [value(result)])


def choice(*, length: bool = False) -> onnx.ModelProto:
    """One of two products, as the input ``c`` says; with ``length`` their outputs have different shapes."""
    nodes = [
        helper.make_node("If", ["c"], ["t"], then_branch=branch("Relu", "a", "u"),
                         else_branch=branch("Tanh", "b", "v", length=length)),
        helper.make_node("Exp", ["t"], ["y"]),
    ]  # fmt: skip
    return model(nodes, [value("c", BOOL, []), value("x", dims=["n", 6])], "y", "t", a=normal(6, 8), b=normal(6, 8, seed=1))


def nested_choice() -> onnx.ModelProto:
    inner = helper.make_node("If", ["d"], ["w"], then_branch=branch("Relu", "a", "u"), else_branch=branch("Tanh", "b", "v"))
    outer = helper.make_graph([inner, helper.make_node("Abs", ["w"], ["z"])], "outer", [], [value("z")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=branch("Sigmoid", "b", "s"))]
    inputs = [value("c", BOOL, []), value("d", BOOL, []), value("x", dims=["n", 6])]
    return model(nodes, inputs, "y", a=normal(6, 8), b=normal(6, 8, seed=1))


def counted_loop(*, grows: bool = False) -> onnx.ModelProto:
    """``count`` products of the state, all of them collected; with ``grows`` the state becomes longer each time."""
    nodes = [
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("MatMul", ["s", "a"], ["m"]),
        helper.make_node("Tanh", ["m"], ["o"]),
        helper.make_node("Concat", ["o", "o1"], ["next"], axis=0) if grows else helper.make_node("Identity", ["o"], ["next"]),
        helper.make_node("ReduceSum", ["o"], ["sum"], keepdims=0),
    ]
    body_inputs = [value("i", INT, []), value("go", BOOL, []), value("s")]
    body = helper.make_graph(nodes, "body", body_inputs, [value("go_on", BOOL, []), value("next"), value("sum", FLOAT, [])])
    loop = helper.make_node("Loop", ["count", "", "x"], ["y", "sums"], body=body)
    inputs = [value("count", INT, []), value("x", dims=["n", 6])]
    return model([loop], inputs, "y", "sums", a=normal(6, 6) / np.float32(3), o1=normal(1, 6))


def scan() -> onnx.ModelProto:
    """A recurrence over the first axis."""
    nodes = [
        helper.make_node("MatMul", ["s", "a"], ["m"]), helper.make_node("Add", ["m", "x_t"], ["k"]),
        helper.make_node("Tanh", ["k"], ["o"]), helper.make_node("Identity", ["o"], ["p"]),
    ]  # fmt: skip
    body = helper.make_graph(nodes, "body", [value("s", dims=[2, 6]), value("x_t", dims=[2, 6])],
                             [value("o", dims=[2, 6]), value("p", dims=[2, 6])])  # fmt: skip
    node = helper.make_node("Scan", ["h", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    return model([node], [value("h", dims=[2, 6]), value("x", dims=["n", 2, 6])], "last", "y", a=normal(6, 6) / np.float32(3))


def pictures() -> onnx.ModelProto:
    """Convolutions in a branch, whose input comes channels last from the layers before it."""
    conv = [helper.make_node("Conv", ["p", "k"], ["q"]), helper.make_node("Relu", ["q"], ["r"])]
    pool = [helper.make_node("MaxPool", ["p"], ["q2"], kernel_shape=[3, 3]), helper.make_node("Neg", ["q2"], ["r2"])]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["f"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["f"], ["p"]),
        helper.make_node("If", ["c"], ["y"], then_branch=helper.make_graph(conv, "conv", [], [value("r")]),
                         else_branch=helper.make_graph(pool, "pool", [], [value("r2")])),
    ]  # fmt: skip
    inputs = [value("c", BOOL, []), value("x", dims=["n", 3, 9, 8])]
    return model(nodes, inputs, "y", w=normal(16, 3, 3, 3), k=normal(16, 16, 3, 3))


def flags(*names: str, **others: Array) -> list[Feeds]:
    """Feeds with all combinations of the flags."""
    cases: list[Feeds] = [others]
    for name in names:
        cases = [{**case, name: np.array(on)} for case in cases for on in (True, False)]
    return cases


CASES: dict[str, tuple[onnx.ModelProto, list[Feeds]]] = {
    "choice": (choice(), flags("c", x=normal(3, 6)) + flags("c", x=normal(5, 6))),
    "choice_of_lengths": (choice(length=True), flags("c", x=normal(3, 6))),
    "nested_choice": (nested_choice(), flags("c", "d", x=normal(3, 6))),
    "loop": (counted_loop(), [{"count": np.array(n), "x": normal(2, 6)} for n in (0, 1, 5, 30)]),
    "growing_loop": (counted_loop(grows=True), [{"count": np.array(n), "x": normal(2, 6)} for n in (0, 1, 5, 30)]),
    "scan": (scan(), [{"h": normal(2, 6, seed=n), "x": normal(n, 2, 6)} for n in (1, 4, 9)]),
    "pictures": (pictures(), flags("c", x=normal(2, 3, 9, 8))),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("proto", "cases"), CASES.values(), ids=CASES)
def test_bodies_give_what_the_reference_gives(proto: onnx.ModelProto, cases: list[Feeds], threads: int) -> None:
    session = Session(tune(proto, threads=threads, effort=0))
    graph = import_model(proto)
    for feeds in cases * 2:
        found, expected = session.run(feeds), reference.run(graph, feeds)
        for name, want in expected.items():
            np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["choice", "nested_choice", "loop", "scan", "pictures"])
def test_bodies_are_not_interpreted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[Array]:
        raise AssertionError("a body was interpreted")

    proto, cases = CASES[name]
    session = Session(tune(proto, threads=1, effort=0))
    monkeypatch.setattr(bodies, "interpreted", refuse)
    monkeypatch.setattr(control, "interpreted", refuse)
    for feeds in cases:
        session.run(feeds)


def test_a_body_whose_shapes_keep_changing_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = bodies.interpreted
    monkeypatch.setattr(bodies, "interpreted", lambda *arguments: calls.append(1) or original(*arguments))
    proto, _ = CASES["growing_loop"]
    session = Session(tune(proto, threads=1, effort=0))
    session.run({"count": np.array(40), "x": normal(2, 6)})
    assert 0 < 40 - len(calls) <= 10


def test_runs_at_once_share_bodies() -> None:
    proto, cases = CASES["choice"]
    session, graph = Session(tune(proto, threads=2, effort=0)), import_model(proto)
    expected = [reference.run(graph, feeds)["y"] for feeds in cases]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: session.run(cases[i % len(cases)])["y"], range(40)))
    for i, each in enumerate(found):
        np.testing.assert_allclose(each, expected[i % len(cases)], rtol=1e-4, atol=1e-5)


def test_results_of_a_run_are_not_overwritten_by_the_next() -> None:
    """A reshape whose sizes only the run tells gives a view of memory that the session uses again."""
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Reshape", ["e", "sizes"], ["y"])]
    session = Session(tune(model(nodes, [value("x", dims=[4, 6]), value("sizes", INT, [2])], "y"), threads=1, effort=0))
    first = session.run({"x": np.zeros((4, 6), np.float32), "sizes": np.array([3, 8])})["y"]
    session.run({"x": np.ones((4, 6), np.float32), "sizes": np.array([8, 3])})
    np.testing.assert_array_equal(first, np.ones((3, 8), np.float32))
