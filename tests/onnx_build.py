"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from softneuro.types import Array


def info(name: str, array: Array) -> onnx.ValueInfoProto:
    """The value's declaration."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    outputs: Sequence[str],
    *,
    opset: int = 20,
    constants: Mapping[str, Array] | None = None,
    domains: Mapping[str, int] | None = None,
    declared: bool = True,
) -> onnx.ModelProto:
    """A model of these nodes. declared: whether the inputs' sizes are, or only their rank."""
    inputs = [info(name, array) for name, array in feeds.items()]
    if not declared:
        for entry in inputs:
            for dim in entry.type.tensor_type.shape.dim:
                dim.Clear()
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def one_node(
    op_type: str,
    feeds: Mapping[str, Array],
    *,
    opset: int = 20,
    constants: Mapping[str, Array] | None = None,
    order: Sequence[str] | None = None,
    outputs: int = 1,
    domain: str = "",
    domain_version: int = 1,
    declared: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node that reads the feeds, then the constants, or what ``order`` says ("" for an absent one)."""
    names = list(order) if order is not None else [*feeds, *(constants or {})]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, name="the_node", **attributes)
    domains = {domain: domain_version} if domain else {}
    return model([node], feeds, results, opset=opset, constants=constants, domains=domains, declared=declared)


def normal(*shape: int, seed: int = 0) -> Array:
    """Seeded normal float32 data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
