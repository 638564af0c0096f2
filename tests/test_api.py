"""The public API as a user meets it: three forms of a model, free dimensions, arguments that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import softneuro
from softneuro.errors import InputError, ModelError


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """y = relu(x w) over a free batch."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((6, 4)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], [weights],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ numpy_helper.to_array(model.graph.initializer[0]), 0)


@pytest.mark.parametrize("form", ["proto", "bytes", "path", "text of a path"])
def test_a_model_comes_as_proto_bytes_or_path(model: onnx.ModelProto, form: str, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    given = {"proto": model, "bytes": model.SerializeToString(), "path": tmp_path / "m.onnx"}.get(form, str(tmp_path / "m.onnx"))
    plan = softneuro.tune(given, shapes={"x": (3, 6)}, threads=1, time_limit=0)
    x = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)
    np.testing.assert_allclose(softneuro.Session(plan).run({"x": x})["y"], expected(model, x), rtol=1e-5, atol=1e-5)
    assert bool(plan.provenance.model_sha256) is (form != "proto")


def test_progress_tells_stages_in_order(model: onnx.ModelProto) -> None:
    stages: list[str] = []
    softneuro.tune(model, threads=1, progress=lambda p: stages.append(p.stage))
    assert stages[0] == "import"
    assert {"measure", "select", "check"} <= set(stages)


def test_session_describes_inputs_and_outputs(model: onnx.ModelProto) -> None:
    session = softneuro.Session(softneuro.tune(model, threads=1, time_limit=0))
    assert session.inputs == (softneuro.TensorInfo("x", "f32", ("n", 6)),)
    assert [info.name for info in session.outputs] == ["y"]


def test_plain_lists_are_taken_as_arrays_of_the_declared_type(model: onnx.ModelProto) -> None:
    session = softneuro.Session(softneuro.tune(model, threads=1, time_limit=0))
    x = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]
    np.testing.assert_allclose(session.run({"x": x})["y"], expected(model, np.array(x, np.float32)), rtol=1e-5)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"shapes": {"nope": (1, 6)}}, InputError, "nope"),
    ({"shapes": {"x": (1, 6, 1)}}, InputError, "x"),
    ({"shapes": {"x": (1, 7)}}, InputError, "7"),
    ({"threads": 0}, InputError, "threads: found 0, needed 1 or more"),
    ({"dtypes": ("f64",)}, InputError, "dtypes: found f64, needed f32"),
    ({"time_limit": -1.0}, InputError, "time_limit: found -1.0, needed 0 or more"),
])  # fmt: skip
def test_arguments_that_do_not_fit(model: onnx.ModelProto, arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        softneuro.tune(model, **{"threads": 1, "time_limit": 0, **arguments})


def test_bytes_that_are_no_model() -> None:
    with pytest.raises(ModelError):
        softneuro.tune(b"not a model", threads=1, time_limit=0)
