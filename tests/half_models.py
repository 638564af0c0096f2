"""A float32 ONNX model as its float16 twin: weights, constants, inputs, outputs and casts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_FLOAT_PARAMETERS = {"Resize": (1, 2), "Upsample": (1,)}  # inputs by position that ONNX wants in float32 always


def half_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """The twin; numbers beyond float16's range become its largest ones."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    graph = twin.graph
    kept = {node.input[i] for node in graph.node for i in _FLOAT_PARAMETERS.get(node.op_type, ()) if i < len(node.input)}
    for tensor in _tensors(graph, kept):
        if tensor.data_type == FLOAT:
            _halve(tensor)
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = HALF
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = HALF
    del graph.value_info[:]
    return twin


def rounded_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in float32 with the numbers of its twin: what the twin computes but for rounding."""
    rounded = onnx.ModelProto()
    rounded.CopyFrom(model)
    kept = {node.input[i] for node in model.graph.node for i in _FLOAT_PARAMETERS.get(node.op_type, ()) if i < len(node.input)}
    for tensor in _tensors(rounded.graph, kept):
        if tensor.data_type == FLOAT:
            _halve(tensor)
            values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return rounded


def _tensors(graph: onnx.GraphProto, kept: set[str]) -> Iterator[onnx.TensorProto]:
    """Initialisers and constants of nodes, but those of the names that are kept."""
    yield from (tensor for tensor in graph.initializer if tensor.name not in kept)
    for node in graph.node:
        if not kept & set(node.output):
            yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)


def _halve(tensor: onnx.TensorProto) -> None:
    values, most = onnx.numpy_helper.to_array(tensor), float(np.finfo(np.float16).max)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.clip(values, -most, most).astype(np.float16), tensor.name))
