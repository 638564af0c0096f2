"""What is told of models and plans: counts by hand, models that cannot be tuned, and where plans differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import softneuro
from softneuro.codegen import target as targets
from softneuro.errors import InputError, ModelError
from softneuro.importer.survey import survey
from softneuro.plan.plan import Choice, Plan
from softneuro.report.inspection import Amount, inspect_model, inspect_plan, op_count, routine_count
from softneuro.report.plan_difference import plan_difference
from softneuro.routines.routine import Signature
from softneuro.runtime.session import Session
from tests.cli_harness import Bench, picture

FLOAT = TensorProto.FLOAT


def save(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray] | None = None, *,
         domains: dict[str, int] | None = None, shape: tuple[int | str, ...] = (1, 4)) -> Path:
    """A model of one input ``x`` and one output ``y``."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)],
                              [helper.make_tensor_value_info("y", FLOAT, None)], initializers)  # fmt: skip
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": 17, **(domains or {})}.items()]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tests", producer_version="7"), path)
    return path


def test_model(bench: Bench) -> None:
    found = inspect_model(bench.model, {}, 1)
    assert (found.kind, found.name, found.ir_version, dict(found.opsets)) == ("model", "tiny", 8, {"": 17})
    assert found.operators == {"Conv": 2, "Relu": 2, "Flatten": 1, "Gemm": 1}
    assert found.parameters == {"f32": Amount(8 * 27 + 8 + 32 + 12 * 120 + 12, 4 * (8 * 27 + 8 + 32 + 12 * 120 + 12))}
    assert found.macs == 30 * 8 * 27 + 30 * 4 * 8 + 12 * 120
    assert [(t.name, t.dtype, t.declared, t.shape) for t in found.inputs] == [("x", "f32", (1, 3, 6, 5), (1, 3, 6, 5))]
    assert [(t.name, t.declared, t.shape) for t in found.outputs] == [("y", (1, 12), (1, 12))]
    assert found.file_bytes == bench.model.stat().st_size
    assert not found.refused and not found.problem and not found.notes
    ops = {row.op: row for row in op_count(found.layers)}
    assert (ops["conv"].layers, ops["conv"].native, ops["conv"].host) == (2, 2, 0)
    assert ops["conv"].parameters == 8 * 27 + 8 + 32 and ops["matmul"].macs == 1440
    assert next(iter(ops)) == "conv", "most multiply-adds first"


def test_plan_is_what_runs(bench: Bench) -> None:
    plan = Plan.load(bench.plan)
    found = inspect_plan(bench.plan, plan, {})
    session = Session(plan)
    session.run({"x": picture()})
    linked = session.linked({"x": (1, 3, 6, 5)})
    assert found.arena_bytes == linked.arena_bytes
    assert [(row.name, row.routine) for row in found.layers] == [(p.name, p.choice.routine) for p in linked.program.placed]
    assert found.provenance is plan.provenance
    assert sum(row.layers for row in routine_count(found.layers)) == len(found.layers)
    assert found.parameters["f32"].count == 8 * 27 + 8 + 32 + 12 * 120 + 12


def test_model_and_its_default_plan_agree(bench: Bench) -> None:
    model, plan = inspect_model(bench.model, {}, 1), inspect_plan(bench.plan, Plan.load(bench.plan), {})
    assert model.layers == plan.layers
    assert (model.macs, model.arena_bytes) == (plan.macs, plan.arena_bytes)


@pytest.mark.parametrize("batch", [1, 3])
def test_free_dimension(bench: Bench, batch: int) -> None:
    shapes = {"x": (batch, 3, 6, 5)} if batch > 1 else {}
    model, plan = inspect_model(bench.free, shapes, 1), inspect_plan(bench.free_plan, Plan.load(bench.free_plan), shapes)
    one = inspect_model(bench.model, {}, 1)
    assert model.macs == plan.macs == batch * (one.macs or 0)
    assert model.inputs[0].declared == ("n", 3, 6, 5) and model.inputs[0].shape == (batch, 3, 6, 5)
    assert [note for note in model.notes if "x=1x3x6x5" in note] if batch == 1 else not model.notes


@pytest.mark.parametrize("shapes", [{"z": (1,)}, {"x": (1, 3)}, {"x": (1, 3, 6, -5)}], ids=["no_such_input", "rank", "negative"])
def test_shapes_that_do_not_fit(bench: Bench, shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(InputError):
        inspect_model(bench.model, shapes)


def test_plans_of_another_machine_are_noted(bench: Bench) -> None:
    plan = Plan.load(bench.plan)
    made = replace(plan.provenance, machine="a cray", target="sse4")
    found = inspect_plan(bench.plan, replace(plan, provenance=made), {}, target=targets.avx2())
    assert [("a cray" in note, "sse4" in note) for note in found.notes] == [(True, False), (False, True)]
    assert found.target == "avx2"


def test_every_refused_operator_is_listed(tmp_path: Path) -> None:
    body = helper.make_graph([helper.make_node("Inner", ["x"], ["b"], "hidden", domain="com.example")], "body", [],
                             [helper.make_tensor_value_info("b", FLOAT, None)])  # fmt: skip
    path = save(tmp_path / "a.onnx", [
        helper.make_node("First", ["x"], ["a"], "one", domain="com.example"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("If", ["c"], ["i"], "choice", then_branch=body, else_branch=body),
        helper.make_node("Second", ["r", "i"], ["y"], domain="com.example"),
        helper.make_node("Third", ["x"], ["unused"], "three", domain="never.imported"),
    ], {"c": np.array(True)}, domains={"com.example": 1})  # fmt: skip
    found = inspect_model(path, {})
    rows = [(row.layer, row.operator) for row in found.refused]
    assert set(rows) == {("one", "com.example.First"), ("hidden", "com.example.Inner"), ("Second_3", "com.example.Second"),
                         ("three", "never.imported.Third")}  # fmt: skip
    assert all(row.reason and not row.reason.startswith("layer") for row in found.refused)
    assert found.operators["Relu"] == 1 and found.operators["com.example.Inner"] == 2
    assert (found.layers, found.macs, found.arena_bytes) == ((), None, None)
    assert [t.name for t in found.inputs] == ["x"] and found.producer == "tests 7"


@pytest.mark.parametrize(("nodes", "problem"), [
    ([helper.make_node("Relu", ["absent"], ["y"])], "reads 'absent'"),
    ([helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"]), helper.make_node("Relu", ["b"], ["y"])],
     "cycle"),
    ([helper.make_node("Relu", ["x"], ["z"])], "output 'y'"),
    ([helper.make_node("MatMul", ["x", "x"], ["y"])], "layer"),
], ids=["absent_tensor", "cycle", "no_output", "shapes_do_not_fit"])  # fmt: skip
def test_inconsistent_models_are_shown(tmp_path: Path, nodes: list[onnx.NodeProto], problem: str) -> None:
    found = inspect_model(save(tmp_path / "a.onnx", nodes), {})
    assert problem in found.problem
    assert sum(found.operators.values()) == len(nodes) and found.layers == ()


def test_layer_on_the_host_has_its_reason(tmp_path: Path) -> None:
    nodes = [helper.make_node("Det", ["x"], ["d"], "det"), helper.make_node("NonZero", ["x"], ["z"], "where"),
             helper.make_node("Cast", ["z"], ["zf"], to=FLOAT), helper.make_node("Add", ["zf", "d"], ["y"])]  # fmt: skip
    found = inspect_model(save(tmp_path / "a.onnx", nodes, shape=(3, 3)), {})
    rows = {row.name: row for row in found.layers}
    assert rows["det"].op == "onnx_op Det" and not rows["det"].native
    assert rows["det"].reasons == ("no routine computes this op",)
    assert "only when it runs" in rows["where"].reasons[0]
    assert found.outputs[0].shape is None


def test_external_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"w": np.ones((4, 4096), np.float32), "v": np.ones((4, 4096), np.float32), "small": np.ones(1, np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["x", "v"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["s", "small"], ["y"])]  # fmt: skip
    path = save(tmp_path / "a.onnx", nodes, weights)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="a.data", size_threshold=0)
    read: list[int] = []
    original = np.fromfile
    monkeypatch.setattr(np, "fromfile", lambda *a, **k: read.append(1) or original(*a, **k))
    found = inspect_model(path, {})
    assert len(read) == 1, "only the small one"
    assert found.macs == 2 * 4 * 4096, "two layers, not one that is shared"
    assert found.parameters["f32"] == Amount(2 * 4 * 4096 + 1, 4 * (2 * 4 * 4096 + 1))
    (tmp_path / "a.data").unlink()
    missing = inspect_model(path, {})
    assert missing.macs == found.macs
    assert "a.data" in missing.notes[0] and missing.notes[0].startswith("3 tensors")


def test_constants_are_counted_by_type_and_in_bodies(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.zeros(5, np.float16)))], "b", [],
        [helper.make_tensor_value_info("k", TensorProto.FLOAT16, [5])], [numpy_helper.from_array(np.zeros(7, np.int8), "i")],
    )  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["h"], then_branch=branch, else_branch=branch), helper.make_node("Relu", ["x"], ["y"])]
    found = survey(save(tmp_path / "a.onnx", nodes, {"c": np.array(True), "s": np.array(["ab", "c"], object)}), {})
    assert found.parameters == {"f16": (10, 20), "i8": (14, 14), "bool": (1, 1), "str": (2, 3)}


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x08"], ids=["empty", "text", "no_graph"])
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    with pytest.raises(ModelError):
        inspect_model(tmp_path / "a.onnx", {})


# ---- differences


def test_plan_against_itself(bench: Bench) -> None:
    plan = Plan.load(bench.plan)
    found = plan_difference(plan, Plan.load(bench.plan))
    assert not found.differ and not found.fields and not found.layers
    assert found.same == len(inspect_plan(bench.plan, plan, {}).layers)


def test_other_weights_differ(bench: Bench) -> None:
    found = plan_difference(Plan.load(bench.plan), Plan.load(bench.other_plan))
    assert found.differ and [f.name for f in found.fields if f.decides] == ["model_sha256"]
    assert not found.layers


def test_history_alone_is_no_difference(bench: Bench) -> None:
    plan = Plan.load(bench.plan)
    later = replace(plan, provenance=replace(plan.provenance, measured_ns=5.0, version="9", machine="other"))
    found = plan_difference(plan, later)
    assert {f.name for f in found.fields} == {"measured_ns", "version", "machine"}
    assert not found.differ


@pytest.mark.parametrize("change", [{"threads": 2}, {"target": "avx2"}, {"model_sha256": "00"}], ids=str)
def test_what_decides(bench: Bench, change: dict[str, object]) -> None:
    plan = Plan.load(bench.plan)
    assert plan_difference(plan, replace(plan, provenance=replace(plan.provenance, **change))).differ  # type: ignore[arg-type]


def test_other_choice(bench: Bench) -> None:
    plan = Plan.load(bench.plan)
    name = next(name for name, choice in plan.choices.items() if choice.routine.startswith("conv."))
    other = Choice("conv.direct.f32.chf", Signature.parse("f32:chf,-,->f32:chf"))
    here = replace(plan, provenance=replace(plan.provenance, layer_ns={name: 7.0}, predicted_ns=7.0))
    found = plan_difference(here, replace(plan, choices={**plan.choices, name: other}))
    row = next(row for row in found.layers if row.name == name)
    assert row.here == plan.choices[name] and row.there is not None and row.there.routine == "conv.direct.f32.chf"
    assert (row.here_ns, row.there_ns, found.here_ns, found.there_ns) == (7.0, None, 7.0, None)
    assert row.here_op == row.there_op


def test_layers_of_only_one(bench: Bench, tmp_path: Path) -> None:
    model = save(tmp_path / "a.onnx", [helper.make_node("Softmax", ["x"], ["y"], "only")], shape=(1, 3, 6, 5))
    other = softneuro.tune(model, threads=1, time_limit=0)
    found = plan_difference(Plan.load(bench.plan), other)
    rows = {row.name: row for row in found.layers}
    assert rows["only"].here is None and rows["only"].here_op is None and rows["only"].there is not None
    assert found.same == 0 and all(row.there is None for name, row in rows.items() if name != "only")
