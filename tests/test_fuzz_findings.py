"""What fuzzing found, made small: each of these once crashed, hung, took all memory or raised an error that is no answer."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import softneuro
from softneuro.errors import InputError, ModelError, PlanError, SoftneuroError, UnsupportedOp
from softneuro.limits import enforced
from tests.broken_inputs import branches, headed, imported, session
from tests.onnx_build import model, normal, one_node

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import fuzz
import fuzz_mutations


def sequence_of_unknown_type() -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("Shape", ["s"], ["n"])], "body", [info("s", 1, ["h"])], [info("n", 7, [1])])
    proto = model([helper.make_node("SequenceMap", ["x"], ["y"], body=body)], {"x": normal(2)}, ["y"])
    proto.graph.input[0].ClearField("type")
    return proto


def version_of_many_bits() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": normal(2)}, ["y"], domains={"other": (1 << 63) - 1})


def constant_that_is_a_graph() -> onnx.ModelProto:
    value = helper.make_graph([], "value", [], [helper.make_tensor_value_info("v", 1, [])])
    return model([helper.make_node("Constant", [], ["y"], value=value)], {}, ["y"])


def long_vector() -> onnx.ModelProto:
    """Shape inference would make an object for each of 2^40 elements."""
    proto = one_node("Cast", {"x": normal(3)}, to=TensorProto.FLOAT16)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 40
    return proto


def graph_of(header: dict[str, Any]) -> dict[str, Any]:
    graph: dict[str, Any] = header["graph"]
    return graph


def unknown_type(domain: str, op_type: str, **attributes: Any) -> onnx.ModelProto:
    """A node that reads what nothing is known of, as the operator before it is none of onnx's."""
    nodes = [helper.make_node("Unheard", ["x"], ["u"], domain="nowhere"),
             helper.make_node(op_type, ["u"], ["y"], domain=domain, **attributes)]  # fmt: skip
    return model(nodes, {"x": normal(2)}, ["y"], domains={"nowhere": 1, "ai.onnx.ml": 4})


def broken_branch(folder: Path) -> None:
    """A plan whose If depends on the data, and has lost its condition."""
    info = helper.make_tensor_value_info
    bodies = [helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [info(op, 1, [2, 3])]) for op in ("Neg", "Abs")]
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
             helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])]  # fmt: skip
    plan = softneuro.tune(model(nodes, {"x": normal(2, 3)}, ["y"]), effort=0, threads=1)
    layers = [replace(layer, inputs=("", *layer.inputs[1:])) if layer.op.name == "if" else layer for layer in plan.graph.layers]
    softneuro.Session(replace(plan, graph=plan.graph.with_layers(layers))).run({"x": normal(2, 3)})


FOUND: dict[str, tuple[Callable[[Path], object], type[SoftneuroError], str]] = {
    "einsum_equation_hangs_shape_inference": (
        imported(one_node("Einsum", {"x": normal(2, 3), "z": normal(3, 2)}, equation="j- ii->")), ModelError, "found equation"),
    "split_into_more_than_it_says_aborts_shape_inference": (
        imported(one_node("Split", {"x": normal(6)}, outputs=4, num_outputs=3)), ModelError, "found 4 outputs, needed 3"),
    "axis_without_end_crashes_shape_inference": (
        imported(one_node("LayerNormalization", {"x": normal(2, 3), "s": normal(3)}, outputs=3, axis=(1 << 63) - 1)), ModelError,
        "found axis 9223372036854775807, needed axes"),
    "text_of_an_unknown_type_crashes_shape_inference": (
        imported(unknown_type("", "RegexFullMatch", pattern="a")), UnsupportedOp, "Unheard"),
    "labels_of_an_unknown_type_crash_shape_inference": (
        imported(unknown_type("ai.onnx.ml", "LabelEncoder", keys_int64s=[1], values_int64s=[2])), UnsupportedOp, "Unheard"),
    "words_of_an_unknown_type_crash_shape_inference": (
        imported(unknown_type("ai.onnx.ml", "DictVectorizer", int64_vocabulary=[1])), UnsupportedOp, "Unheard"),
    "unit_matrix_of_an_unknown_type_crashes_shape_inference": (
        imported(unknown_type("", "EyeLike", dtype=-(1 << 62))), UnsupportedOp, "Unheard"),
    "version_of_many_bits": (imported(version_of_many_bits()), ModelError, "9223372036854775807 of domain 'other'"),
    "name_with_a_line_break": (imported(one_node("Arg\nMax", {"x": normal(2, 3)})), ModelError, "needed printable names"),
    "sequence_map_of_an_unknown_type": (
        imported(sequence_of_unknown_type()), ModelError, "the type of its input 'x' is not known"),
    "constant_that_is_a_graph": (imported(constant_that_is_a_graph()), ModelError, "needed"),
    "branch_that_is_a_tensor": (branches(TensorProto(), TensorProto()), ModelError, "data_type"),
    "long_vector": (imported(long_vector()), SoftneuroError, "4398046511104 bytes"),
    "name_of_an_operator_is_not_utf8": (
        imported(one_node("Relu", {"x": normal(2)}).SerializeToString().replace(b"Relu", b"Re\xffu")), ModelError, "UTF-8"),
    "plan_with_an_unknown_kind_of_input": (
        headed(lambda header: graph_of(header)["inputs"][0].__setitem__(
            slice(1, 4), ["other", [2, 3], "com.microsoft"]), run=True),
        InputError, "needed"),
    "plan_with_an_output_too_many": (
        headed(lambda header: (graph_of(header)["layers"][0][3].append("z"), graph_of(header)["outputs"].append("z")), run=True),
        InputError, "found 1 outputs, needed 2"),
    "plan_that_leaves_out_an_output_of_a_kernel": (
        headed(lambda header: graph_of(header)["layers"][0].__setitem__(1, "top_k(k=2)"), run=True), InputError,
        "found no output number 1, needed one"),
    "plan_with_negative_pads": (
        headed(lambda header: graph_of(header)["layers"][0].__setitem__(
            1, "conv(strides=(1,), pads=(-1, -1), dilations=(1,))"), run=True), InputError, "needed"),
    "plan_with_a_view_of_negative_sizes": (
        headed(lambda header: graph_of(header)["layers"][0].__setitem__(1, "view(shape=(-2, -3))"), run=True), InputError,
        "needed sizes of 0 or more"),
    "plan_with_a_branch_without_a_condition": (broken_branch, InputError, "found no condition, needed one"),
    "plan_with_half_a_thread": (
        headed(lambda header: header["provenance"].update(threads=0.5)), PlanError, "found 0.5, needed int"),
}  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "fragment"), FOUND.values(), ids=FOUND.keys())
def test_found(act: Callable[[Path], object], kind: type[SoftneuroError], fragment: str, tmp_path: Path) -> None:
    with pytest.raises(kind) as caught:
        act(tmp_path)
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bias_of_another_size_is_not_read_past_its_end() -> None:
    """Kernels once read as many elements of the bias as there are filters."""
    weights = {"w": normal(64, 3, 3, 3), "b": normal(1)}
    with pytest.raises(InputError, match="bias has shape"):
        softneuro.tune(one_node("Conv", {"x": normal(1, 3, 8, 8)}, constants=weights), effort=0, threads=1)


def _seeds(kind: str, folder: Path) -> list[bytes]:
    if kind == "profile":
        return fuzz.seeds("profile")
    if kind == "plan":
        session().plan.save(folder / "seed.plan")
        return [(folder / "seed.plan").read_bytes()]
    nets = [one_node("Conv", {"x": normal(1, 3, 5, 5)}, constants={"w": normal(2, 3, 3, 3)}),
            one_node("Reshape", {"x": normal(2, 3)}, constants={"s": np.array([3, 2])}),
            one_node("TopK", {"x": normal(2, 5)}, constants={"k": np.array([2])}, outputs=2)]  # fmt: skip
    return [net.SerializeToString() for net in nets]


@pytest.mark.parametrize(("kind", "count"), [("model", 150), ("plan", 300), ("profile", 500)])
def test_a_short_fuzz(kind: str, count: int, tmp_path: Path) -> None:
    files = _seeds(kind, tmp_path)
    ends: Counter[str] = Counter()
    for number in range(1, count + 1):
        rng = random.Random(f"{kind} {number}")
        data = fuzz_mutations.MUTATIONS[kind](rng.choice(files), rng, rng.choice(files))
        with enforced(fuzz.LIMITS):
            ends[fuzz.check(kind, number, data, tmp_path)] += 1
    assert len(ends) > 1, ends
