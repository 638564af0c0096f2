"""Operators that onnxruntime's optimiser writes into transformers, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from importer_cases import assert_outputs, expected

from softneuro.importer.model import import_model
from softneuro.passes.pipeline import optimise
from softneuro.types import Array
from tests.onnx_build import one_node

F, I32 = np.float32, np.int32
_RNG = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(F)


X, W, B = normal(2, 5, 12), normal(12, 36), normal(36)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], I32)
IDS, SEGMENTS = _RNG.integers(0, 20, (2, 5)).astype(I32), _RNG.integers(0, 2, (2, 5)).astype(I32)
TABLES = {"words": normal(20, 12), "positions": normal(9, 12), "kinds": normal(2, 12), "gamma": normal(12), "beta": normal(12)}

CASES: dict[str, tuple[str, dict[str, Array], list[str] | None, dict[str, Any]]] = {
    "skip": ("SkipLayerNormalization", {"x": X, "skip": normal(2, 5, 12), "g": normal(12), "b": normal(12)}, None, {}),
    "skip_bias": ("SkipLayerNormalization", {"x": X, "skip": normal(2, 5, 12), "g": normal(12), "b": normal(12), "c": normal(12)},
                  None, {"epsilon": 1e-3}),
    "skip_no_beta": ("SkipLayerNormalization", {"x": X, "skip": normal(2, 5, 12), "g": normal(12)}, None, {}),
    "skip_simplified": ("SkipSimplifiedLayerNormalization", {"x": X, "skip": normal(2, 5, 12), "g": normal(12), "c": normal(12)},
                        None, {}),
    "embed": ("EmbedLayerNormalization", {"ids": IDS, "segments": SEGMENTS, **TABLES}, None, {}),
    "embed_no_segments": ("EmbedLayerNormalization", {"ids": IDS, **{n: t for n, t in TABLES.items() if n != "kinds"}},
                          ["ids", "", "words", "positions", "", "gamma", "beta"], {"epsilon": 1e-5}),
    "embed_mask": ("EmbedLayerNormalization", {"ids": IDS, "segments": SEGMENTS, **TABLES, "mask": MASK}, None, {}),
    "attention": ("Attention", {"x": X, "w": W, "b": B}, None, {"num_heads": 3}),
    "attention_mask": ("Attention", {"x": X, "w": W, "b": B, "mask": MASK}, None, {"num_heads": 3}),
    "attention_bias": ("Attention", {"x": X, "w": W, "b": B, "bias": normal(2, 3, 5, 5)}, ["x", "w", "b", "", "", "bias"],
                       {"num_heads": 3, "scale": 0.3}),
    "attention_sizes": ("Attention", {"x": X, "w": normal(12, 32), "b": normal(32)}, None,
                        {"num_heads": 2, "qkv_hidden_sizes": [12, 12, 8]}),
    "gelu": ("Gelu", {"x": X}, None, {}),
    "bias_gelu": ("BiasGelu", {"x": X, "b": normal(12)}, None, {}),
    "fast_gelu": ("FastGelu", {"x": X, "b": normal(12)}, None, {}),
    "quick_gelu": ("QuickGelu", {"x": X}, None, {}),
    "fused_matmul": ("FusedMatMul", {"a": X, "b": normal(2, 7, 12)}, None, {"transB": 1, "alpha": 0.3}),
    "nhwc_max_pool": ("NhwcMaxPool", {"x": _RNG.integers(0, 256, (1, 7, 6, 3)).astype(np.uint8)}, None,
                      {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str) -> None:
    op_type, inputs, order, attributes = CASES[name]
    outputs = 2 if op_type == "EmbedLayerNormalization" else 1
    proto = one_node(op_type, inputs, order=order, domain="com.microsoft", outputs=outputs, **attributes)
    wanted = expected(proto, inputs)
    graph = import_model(proto)
    assert all(layer.op.name != "onnx_op" for layer in graph)
    assert_outputs(graph, inputs, wanted)
    assert_outputs(optimise(graph), inputs, wanted)


def test_the_sum_that_is_normalised() -> None:
    op_type, inputs, _, attributes = CASES["skip_bias"]
    proto = one_node(op_type, inputs, domain="com.microsoft", outputs=4, **attributes)
    del proto.graph.output[1:3]
    proto.graph.node[0].output[1] = proto.graph.node[0].output[2] = ""
    assert_outputs(import_model(proto), inputs, expected(proto, inputs))


def test_simplified_normalisation_of_onnxs_own_domain() -> None:
    inputs = {"x": X, "scale": normal(12)}
    proto = one_node("SimplifiedLayerNormalization", inputs, axis=-1, epsilon=1e-4)
    assert_outputs(import_model(proto), inputs, expected(proto, inputs))
