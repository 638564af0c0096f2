"""The kinds of inputs that are no tensors of numbers we know: what `GraphInput.kind` says of them."""

from __future__ import annotations

import onnx

__all__ = ["kind_of"]


def kind_of(type_: onnx.TypeProto) -> str:
    """The text of an ONNX type, like ``optional(sequence(float32))``; empty where an element type is not known."""
    which = type_.WhichOneof("value")
    if which == "tensor_type":
        return _element(type_.tensor_type.elem_type)
    if which == "map_type":
        return _around("map", kind_of(type_.map_type.value_type), f"{_element(type_.map_type.key_type)},")
    if which == "sequence_type":
        return _around("sequence", kind_of(type_.sequence_type.elem_type))
    if which == "optional_type":
        return _around("optional", kind_of(type_.optional_type.elem_type))
    return ""


def _around(head: str, inner: str, key: str = "") -> str:
    return f"{head}({key}{inner})" if inner else ""


def _element(element: int) -> str:
    """numpy's name of an element type; empty for an unknown one."""
    if element == onnx.TensorProto.UNDEFINED or element not in onnx.TensorProto.DataType.values():
        return ""
    if element == onnx.TensorProto.STRING:
        return "string"
    return onnx.helper.tensor_dtype_to_np_dtype(element).name
