"""Calls of functions, which are replaced by their bodies before anything else looks at the nodes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from softneuro.errors import ModelError, ResourceLimitError

__all__ = ["subgraphs", "with_functions_inlined"]

MAX_NODES = 1_000_000
"""How many nodes a model may have once its local functions are inlined."""


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node's attributes hold."""
    found = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def with_functions_inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without calls of local functions and without SequenceMap, which ONNX defines as a function of a body.

    Raises ModelError for functions that call themselves, ResourceLimitError above `MAX_NODES` nodes.
    """
    maps = _uses(proto.graph, "SequenceMap")
    if not proto.functions and not maps:
        return proto
    if _expanded_size(proto) > MAX_NODES:
        raise ResourceLimitError(f"the model has more than {MAX_NODES} nodes once its functions are inlined")
    light = _without_weights(proto)
    try:
        inlined = onnx.inliner.inline_local_functions(light, convert_version=True)
        if maps:
            names = [("", "SequenceMap")]
            inlined = onnx.inliner.inline_selected_functions(inlined, names, inline_schema_functions=True)
    except (RuntimeError, ValueError, DecodeError) as error:
        raise ModelError(f"the model's functions cannot be inlined: {str(error).strip().splitlines()[0]}") from error
    declared = {info.name for info in proto.graph.input}
    inputs = [info for info in inlined.graph.input if info.name in declared]
    del inlined.graph.input[:]
    inlined.graph.input.extend(inputs)
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined


def _uses(graph: onnx.GraphProto, op_type: str) -> bool:
    return any(node.op_type == op_type or any(_uses(body, op_type) for body in subgraphs(node)) for node in graph.node)


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with initialisers as inputs: the inliner works on serialised models of at most 2 GB."""
    declared = {info.name for info in proto.graph.input}
    stand_ins = [
        onnx.helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in proto.graph.initializer if w.name not in declared
    ]
    graph = onnx.GraphProto(
        name=proto.graph.name,
        node=proto.graph.node,
        input=[*proto.graph.input, *stand_ins],
        output=proto.graph.output,
        sparse_initializer=proto.graph.sparse_initializer,
    )
    return onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions, graph=graph)


def _expanded_size(proto: onnx.ModelProto) -> int:
    """Number of nodes after inlining. Raises ModelError when a function calls itself."""
    bodies = {(f.domain, f.name, f.overload): f.node for f in proto.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    active: list[tuple[str, str, str]] = []

    def total(nodes: Iterable[onnx.NodeProto]) -> int:
        count = 0
        for node in nodes:
            count += 1 + sum(total(graph.node) for graph in subgraphs(node))
            key = (node.domain, node.op_type, node.overload)
            if key in bodies:
                count += size(key)
        return count

    def size(key: tuple[str, str, str]) -> int:
        if key in active:
            raise ModelError(f"function {key[1]!r} of domain {key[0]!r} calls itself, needed functions without recursion")
        if key not in sizes:
            active.append(key)
            sizes[key] = total(bodies[key])
            active.pop()
        return sizes[key]

    return total(proto.graph.node)
