"""What ONNX's shape inference knows of a model's tensors before any input is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from softneuro.errors import ResourceLimitError
from softneuro.graph import GraphInput
from softneuro.importer.functions import subgraphs

__all__ = ["KnownType", "known_types"]

KnownType = tuple[int, tuple[int | None, ...] | None]
"""ONNX element type (0 when not known) and shape (None when not even the rank is known)."""
MAX_COPIED = 1024  # elements of a constant that inference gets the values of
_LONG_VECTOR = 1 << 20
_CRASHING = {("", "RegexFullMatch"), ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "LabelEncoder")}
_ELEMENTS = frozenset(onnx.TensorProto.DataType.values())
_ENCODED = {"values_strings": int(onnx.TensorProto.STRING), "values_int64s": int(onnx.TensorProto.INT64),
            "values_floats": int(onnx.TensorProto.FLOAT)}  # fmt: skip
"""Attributes of a LabelEncoder that hold what it makes."""
MAX_PROTO = 1 << 30  # bytes that inference may serialise


def known_types(model: onnx.ModelProto, inputs: Mapping[str, GraphInput]) -> dict[str, KnownType]:
    """Tensor name to element type and shape, nested graphs included; without entries where nothing is known.

    inputs: the graph's inputs with the sizes that are to be used, which may differ from the declared ones.
    """
    light = _without_weights(model, inputs)
    found: dict[str, KnownType] = {}
    if light.ByteSize() > MAX_PROTO:
        return found
    try:
        inferred = onnx.shape_inference.infer_shapes(light, strict_mode=False, data_prop=False)
        if not _has_long_vector(inferred.graph):  # data propagation makes an object for each element of a vector
            inferred = onnx.shape_inference.infer_shapes(light, strict_mode=False, data_prop=True)
    except MemoryError as error:
        raise ResourceLimitError("the model: its shapes need more memory to be computed than there is, "
                                 "needed shorter vectors in it") from error
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return found
    _collect(inferred.graph, found)
    return found


def _without_weights(model: onnx.ModelProto, inputs: Mapping[str, GraphInput]) -> onnx.ModelProto:
    """The model with big constants as inputs, and nothing declared that the inputs' sizes may contradict."""
    graph = onnx.GraphProto(name=model.graph.name)
    for node in model.graph.node:
        if _crashes_inference(node):
            element = _element_made(node)
            graph.input.extend(onnx.helper.make_tensor_value_info(n, element, None) for n in node.output if n and element)
        else:
            graph.node.append(node)
    graph.output.extend(onnx.ValueInfoProto(name=info.name) for info in model.graph.output)
    for info in model.graph.input:
        declared = inputs.get(info.name)
        if declared is not None and declared.shape is not None and info.type.HasField("tensor_type"):
            graph.input.append(onnx.helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, declared.shape))
        elif declared is not None:
            graph.input.append(info)
    for tensor in model.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if external or sum(1 for d in tensor.dims if d < 0) or _elements(tensor.dims) > MAX_COPIED:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            graph.initializer.append(tensor)
    return onnx.ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import, graph=graph)


def _crashes_inference(node: onnx.NodeProto) -> bool:
    """Whether onnx's inference (1.23) reads the type of an input without asking whether it is known, here or in a body."""
    if (node.domain, node.op_type) in _CRASHING:
        return True
    if node.op_type == "EyeLike" and any(a.name == "dtype" and a.i not in _ELEMENTS for a in node.attribute):
        return True
    return any(_crashes_inference(inner) for body in subgraphs(node) for inner in body.node)


def _element_made(node: onnx.NodeProto) -> int:
    """The element type of the outputs of such a node, 0 where it is not clear."""
    if node.op_type == "RegexFullMatch":
        return int(onnx.TensorProto.BOOL)
    return next((_ENCODED[a.name] for a in node.attribute if a.name in _ENCODED), 0) if node.op_type == "LabelEncoder" else 0


def _has_long_vector(graph: onnx.GraphProto) -> bool:
    """Whether a tensor of one axis is known to be so long that no shape is computed with it."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        if len(dims) == 1 and dims[0].dim_value > _LONG_VECTOR:
            return True
    return any(_has_long_vector(body) for node in graph.node for body in subgraphs(node))


def _elements(dims: Iterable[int]) -> int:
    count = 1
    for size in dims:
        count *= size
    return count


def _collect(graph: onnx.GraphProto, found: dict[str, KnownType]) -> None:
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.HasField("tensor_type"):
            found.setdefault(info.name, _known(info.type.tensor_type))
    for tensor in graph.initializer:
        found.setdefault(tensor.name, (tensor.data_type, tuple(tensor.dims)))
    for node in graph.node:
        for body in subgraphs(node):
            _collect(body, found)


def _known(type_: onnx.TypeProto.Tensor) -> KnownType:
    shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim) if type_.HasField("shape") else None
    return type_.elem_type, shape
