"""Broken models, feeds, plans, profiles and arguments, for tests of what is said about them."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import softneuro
from softneuro.errors import SoftneuroError
from softneuro.limits import ResourceLimits
from tests.onnx_build import model, normal, one_node

X = {"x": normal(2, 3)}
Broken: TypeAlias = dict[str, tuple[Callable[[Path], object], type[SoftneuroError], str]]
"""By name: what is done in a folder, the error it raises, and the error's sentence, FOLDER standing for the folder."""
PREFIX = struct.Struct("<16sIIQ32s")


def sentence_test(broken: Broken) -> Callable[..., None]:
    """The test of a table: each entry raises its error with exactly its sentence."""

    @pytest.mark.parametrize(("act", "kind", "sentence"), broken.values(), ids=broken.keys())
    def test_sentence(act: Callable[[Path], object], kind: type[SoftneuroError], sentence: str, tmp_path: Path) -> None:
        with pytest.raises(SoftneuroError) as caught:
            act(tmp_path)
        found = str(caught.value).replace(str(tmp_path), "FOLDER")
        assert found == sentence, f"found {found!r}, needed {sentence!r}"
        assert type(caught.value) is kind

    return test_sentence


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name=f"make_{outputs[0]}", **attributes)


def imported(proto: onnx.ModelProto | bytes) -> Callable[[Path], object]:
    """Import a model from memory."""
    return lambda folder: softneuro.tune(proto, effort=0, threads=1)


def changed(edit: Callable[[onnx.ModelProto], object]) -> Callable[[Path], object]:
    """Import y = x + w after an edit of the model."""
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"], constants={"w": normal(2, 3)})
    edit(proto)
    return imported(proto)


def weight(**fields: Any) -> Callable[[Path], object]:
    """Import y = x + w with another w."""
    proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
    proto.graph.initializer.add(name="w", **fields)
    return imported(proto)


def external(location: str, **entries: object) -> Callable[[Path], object]:
    """Import y = x + w from a folder with 24 bytes in w.bin, w being in a file."""

    def act(folder: Path) -> object:
        inner = folder / "model"
        (inner / "sub").mkdir(parents=True)
        for file in (folder / "w.bin", inner / "w.bin"):
            file.write_bytes(bytes(24))
        (inner / "link.bin").symlink_to(folder / "w.bin")
        (inner / "circle.bin").symlink_to(inner / "circle.bin")
        proto = model([node("Add", ["x", "w"], ["y"])], X, ["y"])
        tensor = proto.graph.initializer.add(name="w", data_type=1, dims=(2, 3), data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, "length": 24, **entries}.items():
            tensor.external_data.add(key=key, value=str(value))
        (inner / "m.onnx").write_bytes(proto.SerializeToString())
        return softneuro.tune(inner / "m.onnx", effort=0, threads=1)

    return act


def local_functions(*bodies: tuple[str, list[onnx.NodeProto]]) -> Callable[[Path], object]:
    """Import a model that calls function F of the domain local; functions have input a and output b."""
    proto = model([helper.make_node("F", ["x"], ["y"], domain="local")], X, ["y"], domains={"local": 1})
    imports = [helper.make_opsetid("local", 1), helper.make_opsetid("", 20)]
    proto.functions.extend(helper.make_function("local", name, ["a"], ["b"], body, imports) for name, body in bodies)
    return imported(proto)


def nested(depth: int) -> Callable[[Path], object]:
    """Import a model of Ifs in Ifs."""
    output = [helper.make_tensor_value_info("b", 1, None)]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "body", [], output)
    for _ in range(depth):
        inner = helper.make_node("If", ["c"], ["b"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([inner], "body", [], output)
    proto = model([node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)], {**X, "c": np.array(True)}, ["y"])
    return lambda folder: softneuro.tune(proto, effort=0, threads=1, limits=ResourceLimits(nesting=depth))


def shaped(op_type: str, constants: dict[str, Any], **attributes: Any) -> Callable[[Path], object]:
    """Tune one node whose parameters ask for a huge tensor."""
    return imported(one_node(op_type, X, constants=constants, **attributes))


def session(free: bool = False) -> softneuro.Session:
    """y = relu(x w), x 2x3 or nx3."""
    proto = model([node("MatMul", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])], X, ["y"], constants={"w": normal(3, 4)})
    if free:
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    return softneuro.Session(softneuro.tune(proto, effort=0, threads=1), 1)


def fed(feeds: dict[str, Any], names: list[str] | None = None) -> Callable[[Path], object]:
    """Run a session on these feeds."""
    return lambda folder: session().run(names, feeds)


def tuned(**arguments: Any) -> Callable[[Path], object]:
    """Tune y = relu(x w) with these arguments."""
    proto = model([node("MatMul", ["x", "w"], ["y"])], X, ["y"], constants={"w": normal(3, 4)})
    return lambda folder: softneuro.tune(proto, **{"effort": 0, "threads": 1, **arguments})


def plan_bytes(folder: Path) -> bytes:
    session().plan.save(folder / "whole.plan")
    return (folder / "whole.plan").read_bytes()


def planned(edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Load a plan after an edit of its bytes."""

    def act(folder: Path) -> object:
        data = edit(plan_bytes(folder))
        (folder / "a.plan").write_bytes(data)
        return softneuro.Plan.load(folder / "a.plan")

    return act


def headed(edit: Callable[[dict[str, Any]], object], limits: ResourceLimits | None = None,
           run: bool = False) -> Callable[[Path], object]:
    """Load a plan (and run it) after an edit of its header, the digest being right."""

    def act(folder: Path) -> object:
        data = plan_bytes(folder)
        length = PREFIX.unpack_from(data)[3]
        header = json.loads(data[PREFIX.size : PREFIX.size + length])
        edit(header)
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + PREFIX.size) % 64)
        rest = text + data[PREFIX.size + length :]
        prefix = PREFIX.pack(b"softneuro plan\r\n", 1, 0, len(text), hashlib.sha256(rest).digest())
        (folder / "a.plan").write_bytes(prefix + rest)
        plan = softneuro.Plan.load(folder / "a.plan", limits=limits)
        return softneuro.Session(plan, 1).run({"x": np.zeros((2, 3), np.float32)}) if run else plan

    return act


def layer_text(text: str) -> Callable[[dict[str, Any]], None]:
    """An edit of a header that gives its first layer another op."""

    def edit(header: dict[str, Any]) -> None:
        header["graph"]["layers"][0][1] = text

    return edit


def profiled(text: str, limits: ResourceLimits | None = None) -> Callable[[Path], object]:
    """Tune with a profile of this content."""

    def act(folder: Path) -> object:
        (folder / "p.jsonl").write_text(text)
        proto = model([node("Relu", ["x"], ["y"])], X, ["y"])
        return softneuro.tune(proto, effort=1, threads=1, profile=folder / "p.jsonl", limits=limits)

    return act


def pipe(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Read from a named pipe that nobody writes to."""

    def act(folder: Path) -> object:
        os.mkfifo(folder / "pipe")
        return read(folder / "pipe")

    return act


def larger_than_protobuf(folder: Path) -> object:
    """Import a file with a hole of 2 GiB."""
    with open(folder / "m.onnx", "wb") as file:
        file.truncate(1 << 31)
    return softneuro.tune(folder / "m.onnx")


def branches(*bodies: onnx.GraphProto | TensorProto) -> Callable[[Path], object]:
    """Import an If of a condition c, which every body may read as well as x."""
    names = ("then_branch", "else_branch")
    chosen = node("If", ["c"], ["y"], **dict(zip(names, bodies, strict=False)))
    return imported(model([chosen], {**X, "c": np.array(True)}, ["y"]))


def body(op_type: str, read: str) -> onnx.GraphProto:
    """A graph of one node that gives b."""
    output = [helper.make_tensor_value_info("b", 1, None)]
    return helper.make_graph([helper.make_node(op_type, [read], ["b"])], "body", [], output)


def call(name: str, read: str = "a", made: str = "b") -> onnx.NodeProto:
    """A call of a function of the domain local."""
    return helper.make_node(name, [read], [made], domain="local")


def chain_of_functions(count: int, calls: int = 1) -> Callable[[Path], object]:
    """Functions of which each calls the next, once or twice."""
    leaf = (f"F{count}", [helper.make_node("Relu", ["a"], ["b"])])
    once = [(f"F{i}", [call(f"F{i + 1}")]) for i in range(count)]
    twice = [(f"F{i}", [call(f"F{i + 1}", "a", "c"), call(f"F{i + 1}", "c", "b")]) for i in range(count)]
    return local_functions(("F", [call("F0")]), *(once if calls == 1 else twice), leaf)


def endless_loop(folder: Path) -> object:
    """Run a Loop whose condition stays true."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["c0"], ["c1"]), helper.make_node("Neg", ["v"], ["w"])]
    inner = helper.make_graph(nodes, "body", [info("i", 7, []), info("c0", 9, []), info("v", 1, None)],
                              [info("c1", 9, []), info("w", 1, None)])  # fmt: skip
    feeds = {**X, "c": np.array(True)}
    plan = softneuro.tune(model([node("Loop", ["", "c", "x"], ["y"], body=inner)], feeds, ["y"]), effort=0, threads=1)
    return softneuro.Session(plan, 1, limits=ResourceLimits(iterations=9)).run(feeds)


def limited(proto: onnx.ModelProto, **limits: int) -> Callable[[Path], object]:
    """Tune with limits."""
    return lambda folder: softneuro.tune(proto, effort=0, threads=1, limits=ResourceLimits(**limits))


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def labels_in_a_file() -> onnx.ModelProto:
    """A LabelEncoder whose keys lie in a file."""
    where = onnx.StringStringEntryProto(key="location", value="secret")
    keys = TensorProto(data_type=1, dims=[1], data_location=1, external_data=[where])
    return one_node("LabelEncoder", X, domain="ai.onnx.ml", domain_version=4, keys_tensor=keys, values_floats=[1.0])


def weight_in_a_file(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].external_data.add(key="location", value="w.bin")
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
