"""Loading models: what is accepted, what is refused and with which sentence, names, order and input shapes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softneuro import reference
from softneuro.errors import InputError, ModelError, ResourceLimitError, SoftneuroError, UnsupportedOp
from softneuro.importer.model import import_model
from softneuro.types import Array
from tests.onnx_build import model, normal, one_node

X = {"x": normal(2, 3)}
RELU = one_node("Relu", X)


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name=f"make_{outputs[0]}", **attributes)


def run(proto: onnx.ModelProto | Path | str | bytes, **feeds: Array) -> list[Array]:
    graph = import_model(proto)
    return list(reference.run(graph, feeds).values())


def external(location: str, *, size: int = 24, dims: tuple[int, ...] = (2, 3), **entries: int) -> onnx.ModelProto:
    """A model that adds a weight whose data are in a file."""
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
    weight = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=dims)
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "length": size, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    return proto


def with_weight(**fields: object) -> onnx.ModelProto:
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
    proto.graph.initializer.add(name="w", **fields)
    return proto


def with_opset(version: int) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(RELU)
    proto.opset_import[0].version = version
    return proto


def recursive_function() -> onnx.ModelProto:
    proto = model([helper.make_node("F", ["x"], ["y"], domain="local")], X, ["y"], domains={"local": 1})
    body = [helper.make_node("F", ["a"], ["b"], domain="local")]
    proto.functions.append(helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("local", 1)]))
    return proto


def exploding_functions() -> onnx.ModelProto:
    """40 functions, each of which calls the one before it twice."""
    proto = model([helper.make_node("F39", ["x"], ["y"], domain="local")], X, ["y"], domains={"local": 1})
    imports = [helper.make_opsetid("local", 1), helper.make_opsetid("", 20)]
    for i in range(40):
        inner = f"F{i - 1}" if i else "Relu"
        domain = "local" if i else ""
        body = [
            helper.make_node(inner, ["a"], ["t"], domain=domain),
            helper.make_node(inner, ["t"], ["b"], domain=domain),
        ]
        proto.functions.append(helper.make_function("local", f"F{i}", ["a"], ["b"], body, imports))
    return proto


def huge_sparse() -> onnx.ModelProto:
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 20, 1 << 20]))
    return proto


def sparse_outside() -> onnx.ModelProto:
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [6]), [2, 3])
    )
    return proto


def duplicated(what: str) -> onnx.ModelProto:
    proto = model([node("Relu", ["x"], ["y"])], X, ["y"], constants={"w": normal(2)})
    getattr(proto.graph, what).append(getattr(proto.graph, what)[0])
    return proto


def empty_if() -> onnx.ModelProto:
    branch = helper.make_graph([], "then", [], [helper.make_tensor_value_info("x", 1, None)])
    return model([node("If", ["c"], ["y"], then_branch=branch)], {**X, "c": np.array(True)}, ["y"])


BAD: dict[str, tuple[Callable[[], onnx.ModelProto | bytes], type[SoftneuroError], str]] = {
    "empty": (lambda: b"", ModelError, "found no graph, needed an ONNX model"),
    "foreign_text": (lambda: b"hello, this is no model at all", ModelError, "no ONNX model"),
    "foreign_zip": (lambda: b"PK\x03\x04" + bytes(100), ModelError, "needed"),
    "foreign_zeros": (lambda: bytes(1000), ModelError, "needed"),
    "truncated": (lambda: RELU.SerializeToString()[:-7], ModelError, "no ONNX model or a part of one"),
    "no_graph": (lambda: helper.make_opsetid("", 1).SerializeToString(), ModelError, "needed"),
    "opset_too_new": (lambda: with_opset(999), ModelError, "uses operator set version 999, needed one from 1 to"),
    "opset_zero": (lambda: with_opset(0), ModelError, "uses operator set version 0"),
    "unknown_operator": (lambda: one_node("Frobnicate", X), UnsupportedOp, "layer 'the_node' (Frobnicate, opset 20)"),
    "unknown_domain": (
        lambda: one_node("Frobnicate", X, domain="my.ops"),
        UnsupportedOp,
        "layer 'the_node' (Frobnicate, domain 'my.ops', opset 1)",
    ),
    "removed_operator": (lambda: one_node("Upsample", X, opset=13), ModelError, "Upsample"),
    "domain_not_imported": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"], domain="my.ops")], X, ["y"]),
        ModelError,
        "domain 'my.ops' has no operator set version",
    ),
    "too_few_inputs": (lambda: one_node("Add", X), ModelError, "has input size 1 not in range"),
    "unknown_attribute": (lambda: one_node("Relu", X, colour=3), ModelError, "Unrecognized attribute: colour"),
    "missing_attribute": (lambda: one_node("Concat", X), ModelError, "axis"),
    "wrong_attribute_type": (lambda: one_node("Softmax", X, axis=1.5), ModelError, "axis"),
    "wrong_strides": (
        lambda: one_node("Conv", {"x": normal(1, 3, 5, 5), "w": normal(2, 3, 3, 3)}, strides=[1]),
        ModelError,
        "found strides (1,), needed 2 numbers",
    ),
    "zero_stride": (
        lambda: one_node("MaxPool", {"x": normal(1, 3, 5, 5)}, kernel_shape=[2, 2], strides=[0, 1]),
        ModelError,
        "strides (0, 1)",
    ),
    "kernel_contradicts_weights": (
        lambda: one_node("Conv", {"x": normal(1, 3, 5, 5)}, constants={"w": normal(2, 3, 3, 3)}, kernel_shape=[5, 5]),
        ModelError,
        "needed equal kernel sizes",
    ),
    "cycle": (
        lambda: model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], X, ["b"]),
        ModelError,
        "layer 'make_a' (Add, opset 20): is part of a cycle",
    ),
    "input_of_nobody": (
        lambda: model([node("Add", ["x", "ghost"], ["y"])], X, ["y"]),
        ModelError,
        "layer 'make_y' (Add, opset 20): reads 'ghost', which is made by no node",
    ),
    "output_of_nobody": (
        lambda: model([node("Relu", ["x"], ["y"])], X, ["z"]),
        ModelError,
        "output 'z' is made by no node",
    ),
    "made_twice": (
        lambda: model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])], X, ["y"]),
        ModelError,
        "makes 'y', which exists already",
    ),
    "makes_an_input": (
        lambda: model([node("Relu", ["x"], ["x"])], X, ["x"]),
        ModelError,
        "makes 'x', which exists already",
    ),
    "input_twice": (lambda: duplicated("input"), ModelError, "input 'x' is listed twice"),
    "initialiser_twice": (lambda: duplicated("initializer"), ModelError, "initialiser 'w' is there twice"),
    "weights_too_short": (lambda: with_weight(data_type=1, dims=[2, 3], raw_data=bytes(20)), ModelError, "tensor 'w'"),
    "weights_negative_size": (lambda: with_weight(data_type=1, dims=[-2, 3]), ModelError, "found shape (-2, 3)"),
    "weights_huge_but_empty": (lambda: with_weight(data_type=1, dims=[1 << 40]), ResourceLimitError, "tensor 'w'"),
    "weights_without_type": (lambda: with_weight(dims=[2]), ModelError, "found element type 0"),
    "weights_unknown_type": (
        lambda: with_weight(data_type=999, dims=[2], raw_data=bytes(8)),
        ModelError,
        "element type 999",
    ),
    "sparse_too_large": (huge_sparse, ResourceLimitError, "sparse tensor 'w' of shape (1048576, 1048576) needs"),
    "sparse_outside": (sparse_outside, ModelError, "sparse tensor 'w' of shape (2, 3)"),
    "external_without_path": (lambda: external("w.bin"), ModelError, "needed the model's path rather than its bytes"),
    "recursive_function": (recursive_function, ModelError, "function 'F' of domain 'local' calls itself"),
    "exploding_functions": (exploding_functions, ResourceLimitError, "once its functions are inlined"),
    "if_without_else": (empty_if, ModelError, "needed then_branch and else_branch"),
}


@pytest.mark.parametrize("make, kind, fragment", BAD.values(), ids=BAD.keys())
def test_bad_model(make: Callable[[], onnx.ModelProto | bytes], kind: type[SoftneuroError], fragment: str) -> None:
    with pytest.raises(SoftneuroError) as caught:
        import_model(make())
    assert type(caught.value) is kind
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


EXTERNAL: dict[str, tuple[onnx.ModelProto, str]] = {
    "missing": (external("nowhere.bin"), "data file 'nowhere.bin' is missing"),
    "no_location": (external(""), "outside of the model's folder"),
    "parent": (external("../w.bin"), "outside of the model's folder"),
    "parent_inside": (external("sub/../w.bin"), "outside of the model's folder"),
    "windows_parent": (external("..\\w.bin"), "outside of the model's folder"),
    "windows_drive": (external("C:\\w.bin"), "outside of the model's folder"),
    "absolute": (external("/etc/hostname"), "outside of the model's folder"),
    "link_out": (external("link.bin"), "is a link out of the model's folder"),
    "folder": (external("sub"), "is missing"),
    "too_short": (external("w.bin", offset=4), "file 'w.bin' has 24 bytes, needed 28"),
    "wrong_length": (external("w.bin", size=20), "found 20 bytes of external data, needed 24"),
    "negative_offset": (external("w.bin", offset=-4), "found offset '-4'"),
    "huge": (external("w.bin", size=1 << 50, dims=(1 << 24, 1 << 24)), "are allowed"),
}


@pytest.mark.parametrize("proto, fragment", EXTERNAL.values(), ids=EXTERNAL.keys())
def test_bad_external_data(proto: onnx.ModelProto, fragment: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for file in (tmp_path / "w.bin", folder / "w.bin"):
        file.write_bytes(bytes(24))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ResourceLimitError if fragment == "are allowed" else ModelError) as caught:
        import_model(folder / "m.onnx")
    assert fragment in str(caught.value)
    assert "'w'" in str(caught.value)


def test_external_data(tmp_path: Path) -> None:
    weights = normal(2, 3, seed=5)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(8) + weights.tobytes() + bytes(8))
    (tmp_path / "m.onnx").write_bytes(external("sub/w.bin", offset=8).SerializeToString())
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", **X)[0], X["x"] + weights)
    np.testing.assert_array_equal(run(str(tmp_path / "m.onnx"), **X)[0], X["x"] + weights)


def test_external_data_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(24))
    (tmp_path / "m.onnx").write_bytes(external("w.bin").SerializeToString())
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(run("m.onnx", **X)[0], X["x"])


def test_external_packed_integers(tmp_path: Path) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(model([node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], {}, ["y"], opset=21))
    weight = proto.graph.initializer.add(name="w", data_type=TensorProto.INT4, dims=[3])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes([0x2F, 0x03]))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(run(tmp_path / "m.onnx")[0], np.array([-1, 2, 3], np.float32))


def test_cache_of_links_into_one_folder_of_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "111").write_bytes(external("m.onnx_data").SerializeToString())
    (blobs / "222").write_bytes(bytes(24))
    (snapshot / "m.onnx").symlink_to(os.path.relpath(blobs / "111", snapshot))
    (snapshot / "m.onnx_data").symlink_to(os.path.relpath(blobs / "222", snapshot))
    np.testing.assert_array_equal(run(snapshot / "m.onnx", **X)[0], X["x"])
    (tmp_path / "secret").write_bytes(bytes(24))
    (snapshot / "m.onnx_data").unlink()
    (snapshot / "m.onnx_data").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="link out"):
        import_model(snapshot / "m.onnx")


@pytest.mark.parametrize("name", ["missing.onnx", "."])
def test_unreadable_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        import_model(tmp_path / name)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind(form: Callable[[bytes], bytes]) -> None:
    np.testing.assert_array_equal(run(form(RELU.SerializeToString()), **X)[0], np.maximum(X["x"], 0))


@pytest.mark.parametrize("version", [3, 7, 13, 99])
def test_ir_versions(version: int) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(RELU)
    proto.ir_version = version
    np.testing.assert_array_equal(run(proto, **X)[0], np.maximum(X["x"], 0))


def test_ir_version_2_means_opset_1() -> None:
    proto = one_node("Sub", {"x": normal(2, 3), "b": normal(3)}, broadcast=1, opset=1)
    proto.ir_version = 2
    del proto.opset_import[:]
    np.testing.assert_array_equal(run(proto, x=normal(2, 3), b=normal(3))[0], normal(2, 3) - normal(3))


@pytest.mark.parametrize("opset", range(1, onnx.defs.onnx_opset_version() + 1))
def test_every_opset(opset: int) -> None:
    np.testing.assert_array_equal(run(one_node("Relu", X, opset=opset), **X)[0], np.maximum(X["x"], 0))


def test_domain_spelled_out() -> None:
    proto = one_node("Relu", X, domain="ai.onnx")
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    assert [layer.op.name for layer in import_model(proto)] == ["pointwise"]


def test_initialisers_among_inputs_are_constants() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], {**X, "w": normal(2, 3)}, ["y"], constants={"w": normal(2, 3, seed=1)})
    graph = import_model(proto)
    assert list(graph.inputs) == ["x"]
    assert list(graph.constants) == ["w"]


def test_sparse_initialisers_become_dense() -> None:
    for rows in ([1, 5], [[0, 1], [1, 2]]):
        proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
        values = helper.make_tensor("w", TensorProto.FLOAT, [2], [3.0, 4.0])
        indices = onnx.numpy_helper.from_array(np.array(rows), "i")
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
        np.testing.assert_array_equal(import_model(proto).constants["w"], np.array([[0, 3, 0], [0, 0, 4]], np.float32))


def test_functions_are_inlined() -> None:
    proto = model(
        [
            helper.make_node("Twice", ["x"], ["y"], domain="local"),
            helper.make_node("Quad", ["y"], ["z"], domain="local"),
        ],
        X,
        ["z"],
        domains={"local": 1},
        constants={"w": normal(3)},
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    proto.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], imports))
    body = [
        helper.make_node("Twice", ["a"], ["t"], domain="local"),
        helper.make_node("Twice", ["t"], ["b"], domain="local"),
    ]
    proto.functions.append(helper.make_function("local", "Quad", ["a"], ["b"], body, imports))
    graph = import_model(proto)
    assert [layer.op.name for layer in graph] == ["pointwise"] * 3
    assert list(graph.inputs) == ["x"]
    np.testing.assert_allclose(reference.run(graph, X)["z"], 8 * X["x"], rtol=1e-6)


def test_nodes_are_sorted_and_keep_their_order_otherwise() -> None:
    proto = model([node("Abs", ["b"], ["c"]), node("Neg", ["x"], ["d"]), node("Relu", ["x"], ["b"])], X, ["c", "d"])
    assert [layer.name for layer in import_model(proto)] == ["make_d", "make_b", "make_c"]


def test_names_are_made_and_unique() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"], name="same"),
        helper.make_node("Neg", ["b"], ["c"], name="same"),
    ]
    assert [layer.name for layer in import_model(model(nodes, X, ["c"]))] == ["Relu_0", "same", "same_1"]


def test_outputs_may_be_inputs_and_constants() -> None:
    graph = import_model(model([], X, ["x", "w"], constants={"w": normal(2)}))
    found = reference.run(graph, X)
    np.testing.assert_array_equal(found["x"], X["x"])
    np.testing.assert_array_equal(found["w"], normal(2))


def test_unused_constants_are_dropped() -> None:
    assert not import_model(model([node("Relu", ["x"], ["y"])], X, ["y"], constants={"w": normal(2)})).constants


def declared(**shapes: list[int | str | None]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph([helper.make_node("Sum", list(shapes), ["y"])], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph)


def test_declared_shapes() -> None:
    proto = declared(a=["n", 3, None], b=["?", -1, 0])
    assert import_model(proto).inputs["a"].shape == ("n", 3, None)
    assert import_model(proto).inputs["b"].shape == (None, None, 0)


def test_shapes_override_and_symbols_spread() -> None:
    proto = declared(a=["n", 3], b=["n", 1], c=["?", 3], d=["?", 3])
    inputs = import_model(proto, shapes={"a": (4, 5), "c": (4, 3)}).inputs
    assert {name: entry.shape for name, entry in inputs.items()} == {
        "a": (4, 5),
        "b": (4, 1),
        "c": (4, 3),
        "d": (None, 3),
    }


@pytest.mark.parametrize(
    "shapes, fragment",
    [
        ({"q": (1,)}, "shape for 'q': the model has no such input, needed one of a, b"),
        ({"a": (1, 2, 3)}, "shape for 'a': found (1, 2, 3), needed sizes of at least 0"),
        ({"a": (-1, 3)}, "shape for 'a': found (-1, 3)"),
        ({"a": (2, 3), "b": (4, 1)}, "n is 4 here and 2 elsewhere"),
    ],
    ids=["unknown_name", "wrong_rank", "negative", "two_sizes_for_one_symbol"],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        import_model(declared(a=["n", 3], b=["n", 1]), shapes=shapes)
    assert fragment in str(caught.value)


def test_the_given_model_is_not_changed() -> None:
    proto = external("w.bin")
    del proto.graph.initializer[:]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(normal(2, 3), "w"))
    before = proto.SerializeToString(deterministic=True)
    import_model(proto, shapes={"x": (2, 3)})
    assert proto.SerializeToString(deterministic=True) == before
