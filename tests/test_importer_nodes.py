"""ONNX's own node tests: every model is imported, run by the reference interpreter, and its types are inferred."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import onnx
import pytest

from softneuro import reference
from softneuro.errors import DynamicShape
from softneuro.graph import Graph, Layer
from softneuro.importer.model import import_model
from softneuro.types import DType, TensorType

SKIPPED = {
    "test_bernoulli": "random numbers",
    "test_bernoulli_double": "random numbers",
    "test_bernoulli_double_expanded": "random numbers",
    "test_bernoulli_expanded": "random numbers",
    "test_bernoulli_seed": "random numbers",
    "test_bernoulli_seed_expanded": "random numbers",
    "test_image_decoder_decode_bmp_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_jpeg2k_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_jpeg_bgr": "the reference needs Pillow",
    "test_image_decoder_decode_jpeg_grayscale": "the reference needs Pillow",
    "test_image_decoder_decode_jpeg_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_png_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_pnm_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_tiff_rgb": "the reference needs Pillow",
    "test_image_decoder_decode_webp_rgb": "the reference needs Pillow",
}
"""Node tests that are not run, and why: the whole list."""

_COARSE = ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2")


@functools.cache
def node_tests() -> dict[str, Any]:
    """Name to test case."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def value(proto: Any) -> Any:
    """A test's input or output as what a run takes: an array, a list, or None."""
    if isinstance(proto, onnx.TensorProto):
        return onnx.numpy_helper.to_array(proto)
    if isinstance(proto, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(proto)
    if isinstance(proto, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(proto)
    if isinstance(proto, (list, tuple)):
        return [value(item) for item in proto]
    return proto if proto is None else np.asarray(proto)


def assert_same(got: Any, want: Any, rtol: float, atol: float) -> None:
    if want is None:
        assert got is None
    elif isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, rtol, atol)
    elif want.dtype.kind in "OUS":
        assert np.asarray(got).shape == want.shape
        assert np.asarray(got).astype(str).tolist() == want.astype(str).tolist()
    else:
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.name.startswith(_COARSE):
            got, want, rtol = got.astype(np.float32), want.astype(np.float32), max(rtol, 1e-2)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=max(atol, 1e-7))


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


@pytest.mark.parametrize("name", sorted(set(node_tests()) - set(SKIPPED)))
@pytest.mark.filterwarnings("ignore")
def test_node(name: str) -> None:
    case = node_tests()[name]
    graph = import_model(case.model)
    assert case.data_sets
    for inputs, outputs in case.data_sets:
        names = [info.name for info in case.model.graph.input]
        found = run_with_types(graph, dict(zip(names, map(value, inputs), strict=False)))
        for info, want in zip(case.model.graph.output, outputs, strict=True):
            assert_same(found[info.name], value(want), case.rtol, case.atol)


def test_skip_list_names_tests_that_exist() -> None:
    assert set(SKIPPED) <= set(node_tests())


def test_most_node_tests_run() -> None:
    assert len(set(node_tests()) - set(SKIPPED)) >= 1500
