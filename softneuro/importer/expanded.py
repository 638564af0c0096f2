"""Operators that ONNX defines as functions of others, and that have no layer of their own here: their bodies replace them.

A body may depend on the types of a node's inputs (`Attention` on their ranks, for one). Where those are not known before
the run, the node stays as it is, and the ONNX reference runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from softneuro.importer.functions import inlined, operators_of, subgraphs, without_weights
from softneuro.limits import in_force

__all__ = ["EXPANDED", "with_operators_expanded"]

EXPANDED = frozenset({
    "AffineGrid", "Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "HammingWindow",
    "HannWindow", "LinearAttention", "MeanVarianceNormalization", "NegativeLogLikelihoodLoss",
    "RMSNormalization", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU",
})  # fmt: skip

_DOMAIN = "softneuro.operator"  # of the functions that stand for nodes between two steps
_DEPTH = 4  # bodies that call operators with bodies


def with_operators_expanded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the bodies of the operators in `EXPANDED` in their places.

    Raises ModelError when onnx cannot put a body in, ResourceLimitError for too many nodes.
    """
    for _ in range(_DEPTH):
        if not EXPANDED & operators_of(proto.graph.node):
            return proto
        called = _with_calls(proto)
        if not called.functions:
            return proto
        proto = inlined(called)
        kept = [entry for entry in proto.opset_import if entry.domain != _DOMAIN]
        del proto.opset_import[:]
        proto.opset_import.extend(kept)
    return proto


def _with_calls(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of functions of its own in place of the nodes whose bodies are known."""
    version = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)
    types = _types(proto)
    called = onnx.ModelProto()
    called.CopyFrom(proto)

    def visit(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            for body in subgraphs(node):
                visit(body)
            function = _function(node, version, types) if _is_expanded(node) else None
            if function is not None:
                function.domain, function.name = _DOMAIN, f"{node.op_type}_{len(called.functions)}"
                node.domain, node.op_type = function.domain, function.name
                called.functions.append(function)

    visit(called.graph)
    nodes = sum(len(function.node) for function in called.functions)
    in_force().check("nodes", nodes, "the number of the model's nodes once its operators are expanded is")
    called.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    return called


def _is_expanded(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in EXPANDED


def _function(node: onnx.NodeProto, version: int, types: Mapping[str, onnx.TypeProto]) -> onnx.FunctionProto | None:
    """The body of a node as a function, None when it is not known; the node's attributes get their defaults."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:
        return None
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.append(attribute.default_value)
    found = _body(schema, node, version, types)
    if not found:
        return None
    function: onnx.FunctionProto = onnx.FunctionProto.FromString(found)
    del function.opset_import[:]  # the body was chosen for this version: nothing is to be converted
    function.opset_import.append(onnx.helper.make_opsetid("", version))
    return function


def _body(schema: Any, node: onnx.NodeProto, version: int, types: Mapping[str, onnx.TypeProto]) -> bytes:
    """The newest body for operator sets up to ``version``, serialised; nothing when there is none."""
    versions = [v for v in schema.function_opset_versions if v <= version]
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if versions:
        return bytes(schema.get_function_with_opset_version(max(versions)))
    if not dependent or any(name and name not in types for name in node.input):
        return b""
    inputs = [types[name].SerializeToString() if name else b"" for name in node.input]
    try:
        return bytes(schema.get_context_dependent_function_with_opset_version(max(dependent), node.SerializeToString(), inputs))
    except RuntimeError:  # the body depends on more than is known
        return b""


def _types(proto: onnx.ModelProto) -> Mapping[str, onnx.TypeProto]:
    """What shape inference knows of all tensors, those of bodies included."""
    try:
        inferred = onnx.shape_inference.infer_shapes(without_weights(proto), strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    found: dict[str, onnx.TypeProto] = {}

    def collect(graph: onnx.GraphProto) -> None:
        for info in (*graph.input, *graph.value_info, *graph.output):
            if info.type.tensor_type.elem_type:
                found.setdefault(info.name, info.type)
        for node in graph.node:
            for body in subgraphs(node):
                collect(body)

    collect(inferred.graph)
    return found
