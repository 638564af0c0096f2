"""Constants, and operators that make tensors of shapes and small values."""

from __future__ import annotations

from typing import Any

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.shape import ConstantOfShape, Range, Shape, Size
from softneuro.types import Array, DType

__all__ = ["CONVERTERS"]


def _constant(node: Node) -> tuple[Layer, ...]:
    node.scope.add_constant(node.outputs[0], _constant_value(node))
    return ()


def _constant_value(node: Node) -> Array:
    if len(node.attributes) != 1:
        raise node.error(f"found {len(node.attributes)} values, needed one")
    ((form, value),) = node.attributes.items()
    if form == "value":
        return node.scope.array(value)
    if form == "sparse_value":
        return node.scope.dense(value)
    dtype: Any = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }.get(form, object)
    return np.array(value, dtype)


def _shape(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Shape(int(node.get("start", 0)), node.get("end"))),)


def _size(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Size()),)


def _constant_of_shape(node: Node) -> tuple[Layer, ...] | None:
    value = node.get("value")
    array = np.zeros(1, np.float32) if value is None else node.scope.array(value)
    dtype = DType.of(array.dtype)
    if dtype in (DType.STR, DType.OTHER, DType.C64, DType.C128):
        return None
    if array.size != 1:
        raise node.error(f"found a value of {array.size} elements, needed 1")
    return (node.layer(ConstantOfShape(dtype, array.reshape(-1)[0].item())),)


def _range(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Range()),)


CONVERTERS: Converters = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
}
