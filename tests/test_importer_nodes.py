"""ONNX's own node tests: every model is imported, run by the reference interpreter, and its types are inferred."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softneuro import reference
from softneuro.errors import DynamicShape
from softneuro.graph import Graph, Layer
from softneuro.importer.model import import_model
from softneuro.types import DType, TensorType
from tests.conformance_cases import RANDOM, assert_same, assert_same_type, node_cases


def run_with_types(graph: Graph, feeds: dict[str, Any]) -> dict[str, Any]:
    """As `reference.run`; every layer whose types can be inferred must have inferred them right."""
    values = {**graph.constants, **feeds}
    for layer in graph.layers:
        outputs = reference.run_layer(layer, values)
        assert_inferred(layer, values, outputs)
        values.update((name, output) for name, output in zip(layer.outputs, outputs, strict=False) if name)
    return {name: values[name] for name in graph.outputs}


def assert_inferred(layer: Layer, values: dict[str, Any], outputs: tuple[Any, ...]) -> None:
    inputs = [values[name] if name else None for name in layer.inputs]
    if any(isinstance(v, list) or (v is None and name) for v, name in zip(inputs, layer.inputs, strict=True)):
        return
    types = [None if v is None else TensorType.of(v) for v in inputs]
    op = layer.op
    try:
        bound = op.bind(types, inputs)
        if bound is not None:
            op, types = bound.op, [types[i] for i in bound.inputs]
        inferred = op.infer(types)
    except DynamicShape:
        return
    for name, output, type_ in zip(layer.outputs, outputs, inferred, strict=False):
        if name and isinstance(output, np.ndarray):
            assert str(type_) == str(TensorType.of(output)) or type_.dtype is DType.OTHER, layer


@pytest.mark.parametrize("name", node_cases())
@pytest.mark.filterwarnings("ignore")
def test_node(name: str) -> None:
    if name.startswith("test_image_decoder"):
        pytest.importorskip("PIL")
    case = node_cases()[name]
    graph = import_model(case.model)
    assert case.data_sets
    for data in case.data_sets:
        found = run_with_types(graph, data.feeds)
        for got, want in zip(found.values(), data.outputs, strict=True):
            if name in RANDOM:
                assert_same_type(got, want)
            else:
                assert_same(got, want, case.rtol, case.atol)
