"""What the importer's tests of operator families share: one node, the ops it becomes, onnxruntime's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

from softneuro import reference
from softneuro.graph import Graph
from softneuro.importer.model import import_model
from softneuro.specialise import specialise
from softneuro.types import Array
from tests.onnx_build import normal, one_node

F = np.float32
I64 = np.int64


@dataclass(frozen=True)
class Case:
    """One node: what it reads, at which opset, with which attributes, and the ops it must become."""

    op_type: str
    feeds: dict[str, Array]
    ops: tuple[str, ...]
    opset: int = 20
    constants: dict[str, Array] = field(default_factory=dict)
    order: tuple[str, ...] | None = None
    outputs: int = 1
    domain: str = ""
    domain_version: int = 1
    declared: bool = True
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        return one_node(
            self.op_type,
            self.feeds,
            opset=self.opset,
            constants=self.constants,
            order=self.order,
            outputs=self.outputs,
            domain=self.domain,
            domain_version=self.domain_version,
            declared=self.declared,
            **self.attributes,
        )


def x(*shape: int) -> dict[str, Array]:
    return {"x": normal(*shape)}


def ints(*values: int) -> Array:
    return np.array(values, I64)


def expected(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_outputs(graph: Graph, feeds: dict[str, Array], wanted: list[Array]) -> None:
    found = reference.run(graph, {name: feeds[name] for name in graph.inputs})
    for name, want in zip(graph.outputs, wanted, strict=True):
        assert found[name].shape == want.shape
        if want.dtype.kind == "O":
            assert found[name].astype(str).tolist() == want.astype(str).tolist()
            continue
        assert found[name].dtype == want.dtype
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)


def check(case: Case) -> None:
    """The ops are those that the case names; graph and specialised graph compute onnxruntime's outputs."""
    proto = case.model()
    graph = import_model(proto)
    assert tuple(layer.op.name for layer in graph) == case.ops
    wanted = expected(proto, case.feeds)
    assert_outputs(graph, case.feeds, wanted)
    assert_outputs(specialise(graph, {name: array.shape for name, array in case.feeds.items()}), case.feeds, wanted)
