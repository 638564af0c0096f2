"""Nodes that onnx has no test for, with inputs: operators of other domains, and a few of ONNX's own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from softneuro.types import Array
from tests.importer_cases import Case
from tests.onnx_build import normal, one_node

__all__ = ["examples"]

_TABLES = ("linear", "movement", "pointwise")
"""Modules of tests whose tables have nodes of other domains."""

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
_U8, _ZERO = np.uint8, np.zeros((), np.uint8)
_CODES = np.arange(12, dtype=_U8).reshape(3, 4)
_STEP = np.array(0.1, np.float32)
X: dict[str, Array] = {"x": normal(3, 4)}

OWN: tuple[tuple[str, str, dict[str, Array], dict[str, Any]], ...] = (
    ("", "GlobalLpPool", {"x": normal(1, 2, 5, 5)}, {}),
    ("", "Optional", X, {}),
    (ML, "CategoryMapper", {"x": np.array([0, 1], np.int64)}, {"cats_int64s": [0, 1], "cats_strings": ["a", "b"]}),
    (ML, "LinearClassifier", X, {"coefficients": [0.5] * 12, "intercepts": [0.1] * 3, "classlabels_ints": [0, 1, 2]}),
    (ML, "LinearRegressor", X, {"coefficients": [0.5] * 4, "intercepts": [0.1]}),
    (ML, "Normalizer", X, {"norm": "L2"}),
    (ML, "ZipMap", X, {"classlabels_int64s": [0, 1, 2, 3]}),
    (MICROSOFT, "Gelu", X, {}),
    (MICROSOFT, "FusedGemm", {**X, "w": normal(4, 5), "b": normal(5)}, {"activation": "Relu"}),
    (MICROSOFT, "QLinearMatMul", {
        "a": _CODES, "as": _STEP, "az": _ZERO, "b": _CODES.T.copy(), "bs": _STEP, "bz": _ZERO, "ys": _STEP, "yz": _ZERO}, {}),
)  # fmt: skip
"""Domain, operator, inputs, attributes."""


def examples() -> Iterator[tuple[onnx.ModelProto, dict[str, Array]]]:
    """Models of one node each, with the inputs to run them on."""
    for name in _TABLES:
        for case in importlib.import_module(f"tests.test_importer_{name}").CASES.values():
            if isinstance(case, Case) and case.domain:
                yield case.model(), case.feeds
    for op_type, feeds, attributes in importlib.import_module("tests.test_importer_quantised").CONTRIBUTED.values():
        yield one_node(op_type, feeds, domain=MICROSOFT, **attributes), feeds
    for domain, op_type, feeds, attributes in OWN:
        yield one_node(op_type, feeds, domain=domain, outputs=2 if op_type == "LinearClassifier" else 1, **attributes), feeds
