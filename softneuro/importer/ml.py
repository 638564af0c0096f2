"""Operators of the domain ai.onnx.ml that are arithmetic: linear models, scalers, normalisers, maps of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from softneuro.graph import Layer
from softneuro.importer.fallback import convert_any
from softneuro.importer.node import Converters, Node
from softneuro.importer.scores import Decision, classified, transform_of, transformed
from softneuro.ops.matmul import MatMul
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.reduce import Reduce
from softneuro.ops.zip_map import ZipMap

__all__ = ["CONVERTERS"]

_NORMS = {"MAX": "max", "L1": "l1", "L2": "l2"}


def _scaler(node: Node) -> tuple[Layer, ...]:
    """(x - offset) * scale as float32, with one number of each for every column or one for all."""
    names = [
        node.add_constant(name, np.array(node.get(name, default), np.float32))
        for name, default in (("offset", [0.0]), ("scale", [1.0]))
    ]
    return (node.layer(Pointwise("cast_f32(x0);sub(t0,x1);mul(t1,x2)"), (node.inputs[0], *names)),)


def _normalizer(node: Node) -> tuple[Layer, ...]:
    """x over a norm of its row, in float32; rows of norm 0 stay."""
    kind = str(node.get("norm", "MAX"))
    if kind not in _NORMS:
        raise node.error(f"found norm {kind!r}, needed one of {', '.join(_NORMS)}")
    real, norm = node.tensor("real"), node.tensor("norm")
    return (
        node.layer(Pointwise("cast_f32(x0)"), outputs=(real,)),
        node.layer(Reduce(_NORMS[kind], (-1,)), (real,), (norm,)),
        node.layer(Pointwise("equal(x1,0.0);div(x0,x1);where(t0,x0,t1)"), (real, norm)),
    )


def _linear(node: Node, rows: int, result: str) -> tuple[Layer, ...]:
    """Scores (n, rows) of x (n, columns): coefficients are listed row by row."""
    coefficients = np.array(node.get("coefficients", ()), np.float32).reshape(rows, -1)
    intercepts = np.array(node.get("intercepts", [0.0] * rows), np.float32)
    if intercepts.size != rows:
        raise node.error(f"found {intercepts.size} intercepts, needed {rows}")
    real = node.tensor("real")
    names = node.add_constant("coefficients", np.ascontiguousarray(coefficients.T)), node.add_constant("intercepts", intercepts)
    return (
        node.layer(Pointwise("cast_f32(x0)"), node.inputs[:1], (real,)),
        node.layer(MatMul(bias=True), (real, *names), (result,)),
    )


def _linear_regressor(node: Node) -> tuple[Layer, ...] | None:
    targets, kind = int(node.get("targets", 1)), transform_of(node)
    if node.rank(0) == 1:
        return None
    if kind == "none":
        return _linear(node, targets, node.outputs[0])
    scores = node.tensor("scores")
    return (*_linear(node, targets, scores), *transformed(node, kind, scores, node.outputs[0]))


def _linear_classifier(node: Node) -> tuple[Layer, ...] | None:
    strings = node.get("classlabels_strings", ())
    labels = np.array(strings, object) if len(strings) else np.asarray(node.get("classlabels_ints", ()), np.int64)
    rows = len(node.get("intercepts", ())) or len(labels)
    if node.rank(0) == 1 or not len(labels):
        return None
    scores, decision = node.tensor("scores"), Decision(transform_of(node), 0.0 if rows == 1 else None)
    return (*_linear(node, rows, scores), *classified(node, decision, scores, rows, labels))


def _category_mapper(node: Node) -> tuple[Layer, ...]:
    """Strings to numbers or back: a LabelEncoder by another name, of whichever direction the input asks for."""
    strings, numbers = list(node.get("cats_strings", ())), [int(n) for n in node.get("cats_int64s", ())]
    attributes: dict[str, Any]
    element = node.scope.tensor_type(node.inputs[0])[0]
    if element == onnx.TensorProto.STRING:
        attributes = {"keys_strings": strings, "values_int64s": numbers, "default_int64": int(node.get("default_int64", -1))}
    else:
        attributes = {"keys_int64s": numbers, "values_strings": strings, "default_string": node.get("default_string", "_Unused")}
    proto = onnx.helper.make_node("LabelEncoder", node.inputs, node.outputs, name=node.name, domain=node.domain, **attributes)
    encoder = Node(proto, 0, node.scope)
    encoder.opset = 2
    return convert_any(encoder)


def _zip_map(node: Node) -> tuple[Layer, ...]:
    strings = node.get("classlabels_strings", ())
    labels = tuple(strings) if len(strings) else tuple(int(label) for label in node.get("classlabels_int64s", ()))
    return (node.layer(ZipMap(labels)),)


CONVERTERS: Converters = {
    "CategoryMapper": _category_mapper,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
    "ZipMap": _zip_map,
}
