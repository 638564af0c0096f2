"""Inputs that decide what runs: a program for each of their values, tuning with values, and what happens with too many."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_build import normal
from test_bodies import BOOL, FLOAT, INT, branch, choice, counted_loop, model, nested_choice, value

from softneuro import reference
from softneuro.control_inputs import branch_inputs, control_inputs, likely_values
from softneuro.errors import InputError
from softneuro.importer.model import import_model
from softneuro.plan.plan import Plan
from softneuro.plan.program import HostStep
from softneuro.runtime import Session
from softneuro.tuning.tune import tune
from softneuro.types import Array

X = normal(2, 6)


def rated(*, dims: list[int | str] | None = None) -> onnx.ModelProto:
    """Two products of different widths, one of them where ``sr`` is 16000; layers of both branches have the same names."""
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["e"]),
        helper.make_node("Reshape", ["e", "none"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu", "a", "u"), else_branch=branch("Relu", "b", "v")),
        helper.make_node("Neg", ["sr"], ["minus"]),
    ]
    return model(nodes, [value("sr", INT, dims or []), value("x", dims=["n", 6])], "y", "minus", rate=np.array(16000),
                 none=np.zeros(0, np.int64), a=normal(6, 8), b=normal(6, 5, seed=1))  # fmt: skip


def computed_condition() -> onnx.ModelProto:
    """The condition depends on the number and on the data."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["k"], ["f"], to=FLOAT),
        helper.make_node("Less", ["most", "f"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu", "a", "u"), else_branch=branch("Tanh", "b", "v")),
    ]
    return model(nodes, [value("k", INT, []), value("x", dims=["n", 6])], "y", a=normal(6, 8), b=normal(6, 8, seed=1))


def largest(*, dims: list[int | str]) -> onnx.ModelProto:
    """The ``k`` largest of each row."""
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "places"], axis=-1)]
    return model(nodes, [value("k", INT, dims), value("x", dims=["n", 6])], "y", "places")


def one_layer(kind: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node(kind, ["t"], [kind])], kind, [], [value(kind)])


def number(given: int) -> Array:
    return np.array(given, np.int64)


def truth(given: bool) -> Array:
    return np.array(given)


def session_of(proto: onnx.ModelProto, threads: int = 1, **options: Any) -> Session:
    return Session(tune(proto, shapes={"x": X.shape}, threads=threads, effort=0, **options), threads)


def check(session: Session, proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> None:
    expected = reference.run(import_model(proto), feeds)
    found = session.run(feeds)
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        assert found[name].shape == want.shape and found[name].dtype == want.dtype
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


def host_ops(session: Session, feeds: Mapping[str, Array]) -> list[str]:
    return [step.layer.op.name for step in session.linked(feeds).program.steps if isinstance(step, HostStep)]


CASES: dict[str, tuple[onnx.ModelProto, tuple[str, ...], list[dict[str, Array]]]] = {
    "compared_with_a_number": (rated(), ("sr",), [{"sr": number(n)} for n in (16000, 8000, 16000, 7)]),
    "one_element_of_rank_one": (rated(dims=[1]), ("sr",), [{"sr": np.array([n])} for n in (16000, 8000)]),
    "one_element_of_a_free_size": (rated(dims=["m"]), ("sr",), [{"sr": np.array([n])} for n in (16000, 8000)]),
    "bool": (choice(), ("c",), [{"c": truth(c)} for c in (True, False, True)]),
    "branches_of_different_lengths": (choice(length=True), ("c",), [{"c": truth(c)} for c in (True, False, True)]),
    "nested": (nested_choice(), ("c", "d"), [{"c": truth(c), "d": truth(d)} for c in (True, False) for d in (True, False)]),
    "depends_on_data": (computed_condition(), (), [{"k": number(n)} for n in (-9, 0, 1, 9)]),
    "count_of_a_loop": (counted_loop(), (), [{"count": number(n)} for n in (0, 3)]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("proto", "names", "rows"), CASES.values(), ids=CASES)
def test_runs_give_what_the_reference_gives(proto: onnx.ModelProto, names: tuple[str, ...], rows: list[dict[str, Array]],
                                            threads: int) -> None:
    session = session_of(proto, threads)
    assert session.control_inputs == names == control_inputs(session.plan.graph)
    for row in [*rows, *rows]:
        for x in (X, normal(5, 6)):
            feeds = {**row, "x": x[:, :6]}
            check(session, proto, feeds)
            assert not names or not set(host_ops(session, feeds)) & {"if", "later"}


def test_sizes_are_decided_too() -> None:
    proto = largest(dims=[1])
    session = session_of(proto)
    assert session.control_inputs == ("k",) and not branch_inputs(session.plan.graph)
    for k in (1, 4, 2):
        check(session, proto, {"k": np.array([k]), "x": X})
    assert "later" not in host_ops(session, {"k": np.array([3]), "x": X})


def test_an_input_of_many_values_stops_counting() -> None:
    proto = rated()
    session = session_of(proto)
    for n in range(8):
        check(session, proto, {"sr": number(n), "x": X})
    assert session.control_inputs == ("sr",)
    check(session, proto, {"sr": number(8), "x": X})
    assert session.control_inputs == ()
    assert "if" in host_ops(session, {"sr": number(3), "x": X})
    made = len(session._specialisations._made)
    for n in (*range(20), 16000):
        check(session, proto, {"sr": number(n), "x": X})
    assert len(session._specialisations._made) == made == 1


def test_one_of_two_inputs_stops_counting() -> None:
    nodes = [
        helper.make_node("Greater", ["k", "zero"], ["d"]),
        helper.make_node("If", ["c"], ["t"], then_branch=branch("Relu", "a", "u"), else_branch=branch("Tanh", "b", "v")),
        helper.make_node("If", ["d"], ["y"], then_branch=one_layer("Exp"), else_branch=one_layer("Neg")),
    ]  # fmt: skip
    inputs = [value("c", BOOL, []), value("k", INT, []), value("x", dims=["n", 6])]
    proto = model(nodes, inputs, "y", zero=np.array(0), a=normal(6, 8), b=normal(6, 8, seed=1))
    session = session_of(proto)
    for k in range(-6, 6):
        check(session, proto, {"c": truth(k % 2 == 0), "k": number(k), "x": X})
    assert session.control_inputs == ("c",)


def test_programs_of_all_values_are_bounded() -> None:
    proto = choice()
    session = session_of(proto)
    for n in range(1, 9):
        for c in (True, False):
            check(session, proto, {"c": truth(c), "x": normal(n, 6)})
    assert len(session._specialisations._made) == 8


def test_threads_with_different_values() -> None:
    proto = rated()
    session, graph = session_of(proto), import_model(proto)
    rows = [{"sr": number((16000, 8000, n)[n % 3]), "x": normal(2, 6, seed=n)} for n in range(48)]
    expected = [reference.run(graph, row)["y"] for row in rows]
    with ThreadPoolExecutor(4) as pool:
        for found, want in zip(pool.map(session.run, rows), expected, strict=True):
            np.testing.assert_allclose(found["y"], want, rtol=1e-5, atol=1e-6)


def test_a_binding_sees_a_value_that_changes_in_place() -> None:
    proto = rated()
    session, graph = session_of(proto), import_model(proto)
    feeds = {"sr": number(16000), "x": X.copy()}
    binding = session.bind(feeds)
    for n in (16000, 8000, 16000, *range(12)):
        feeds["sr"][...] = n
        feeds["x"] += 1
        want = reference.run(graph, feeds)
        found = binding.run()
        np.testing.assert_allclose(found["y"], want["y"], rtol=1e-5, atol=1e-6)
        assert found["minus"] == -n


def test_a_binding_says_that_an_output_no_longer_fits() -> None:
    feeds = {"sr": number(16000), "x": X}
    binding = session_of(rated()).bind(feeds, {"y": np.empty((2, 8), np.float32)})
    binding.run()
    feeds["sr"][...] = 8000
    with pytest.raises(InputError, match="output 'y'"):
        binding.run()


def test_a_feed_that_changes_later_does_not_change_the_program() -> None:
    proto = rated()
    session, sr = session_of(proto), number(16000)
    check(session, proto, {"sr": sr, "x": X})
    sr[...] = 8000
    check(session, proto, {"sr": sr, "x": X})
    check(session, proto, {"sr": number(16000), "x": X})


def test_a_branch_that_does_not_take_the_tuned_sizes_has_its_constants_folded() -> None:
    """As deep as they are: the weights of the inner branch are not put together in every run."""
    joined = [helper.make_node("Concat", ["b", "b"], ["w"], axis=0), helper.make_node("MatMul", ["h", "w"], ["q"])]
    plain = [helper.make_node("MatMul", ["h", "b6"], ["p"])]
    inner = helper.make_node("If", ["d"], ["z"], then_branch=helper.make_graph(joined, "joined", [], [value("q")]),
                             else_branch=helper.make_graph(plain, "plain", [], [value("p")]))  # fmt: skip
    outer = helper.make_graph([helper.make_node("MatMul", ["x", "b4"], ["h"]), inner], "outer", [], [value("z")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu", "a", "u"), else_branch=outer)]
    inputs = [value("c", BOOL, []), value("d", BOOL, []), value("x", dims=["n", "m"])]
    proto = model(nodes, inputs, "y", a=normal(6, 8), b=normal(3, 3000), b4=normal(4, 6), b6=normal(6, 3000))
    session = session_of(proto)
    feeds = {"c": truth(False), "d": truth(True), "x": normal(3, 4)}
    check(session, proto, feeds)
    assert [item.name for item in session.linked(feeds).program.placed if "concat" in item.choice.routine] == []


# ---- tuning


def test_choices_are_of_the_branch_that_was_tuned(tmp_path: Path) -> None:
    proto = rated()
    plan = tune(proto, shapes={"x": X.shape}, values={"sr": 8000}, threads=1, effort=1)
    assert plan.provenance.values == {"sr": 8000}
    layers = [name for name in plan.choices if "/" in name]
    assert layers and all("/else/" in name for name in layers)
    plan.save(tmp_path / "p.plan")
    session = Session(Plan.load(tmp_path / "p.plan"))
    assert session.plan.provenance.values == {"sr": 8000}
    placed = {item.name: item.choice for item in session.linked({"sr": number(8000), "x": X}).program.placed}
    assert {name: placed[name] for name in layers} == {name: plan.choices[name] for name in layers}
    assert session.linked({"sr": (), "x": X.shape}) is session.linked({"sr": number(8000), "x": X})
    for n in (16000, 8000):
        check(session, proto, {"sr": number(n), "x": X})


def test_a_likely_value_is_tuned_without_being_asked_for() -> None:
    graph = import_model(rated())
    assert likely_values(graph, "sr") == [16000, 1, 0]
    assert tune(rated(), shapes={"x": X.shape}, threads=1, effort=0).provenance.values == {"sr": 16000}
    assert tune(choice(), shapes={"x": X.shape}, threads=1, effort=0).provenance.values == {"c": 1}
    assert tune(largest(dims=[]), shapes={"x": X.shape}, threads=1, effort=0).provenance.values == {}
    assert tune(computed_condition(), shapes={"x": X.shape}, threads=1, effort=0).provenance.values == {}


def test_one_plan_for_both_branches() -> None:
    proto = rated()
    plan = tune(proto, shapes=[{"x": (2, 6)}, {"x": (7, 6)}], values=[{"sr": 16000}, {"sr": 8000}], threads=1, effort=1)
    assert (plan.provenance.values, plan.provenance.further_values) == ({"sr": 16000}, ({"sr": 8000},))
    assert {name.split("/")[1] for name in plan.choices if "/" in name} == {"then", "else"}
    for n in (16000, 8000):
        check(Session(plan), proto, {"sr": number(n), "x": X})


@pytest.mark.parametrize(("values", "sentence"), [
    ({"x": 1}, "values: found input 'x', which does not decide what runs, needed one of 'sr'"),
    ({"sr": 1.5}, "values: found 1.5 for input 'sr', needed a whole number"),
    ({"sr": float("nan")}, "values: found nan for input 'sr', needed a whole number"),
    ({"sr": "a"}, "values: found 'a' for input 'sr', needed a whole number"),
    ({"sr": [1, 2]}, r"values: found \[1, 2\] for input 'sr', needed a whole number"),
    ({"sr": 2**70}, "for input 'sr', needed a whole number"),
])  # fmt: skip
def test_values_that_do_not_fit(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        tune(rated(), shapes={"x": X.shape}, values=values, threads=1, effort=0)


def test_sizes_that_nobody_gave_are_named() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    proto = model(nodes, [value("x", dims=["n", 1, "length"])], "y", w=normal(2, 1, 40))
    with pytest.raises(InputError, match=r"taken as 1 \(x=1x1x1\), needed others, such as --shape x=1x1x64"):
        tune(proto, threads=1, effort=0)
