"""Calls of functions, which are replaced by their bodies before anything else looks at the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
import onnx.inliner
import onnx.version_converter
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from softneuro.errors import ModelError
from softneuro.limits import in_force

__all__ = ["inlined", "operators_of", "subgraphs", "with_functions_inlined", "without_weights"]

_REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, onnx.version_converter.ConvertError)


def _need_types(model: onnx.ModelProto, operators: Sequence[str]) -> None:
    """Raise ModelError when the type of an input of such an operator is not known: onnx's inliner would crash."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known: set[str] = set()
    untyped: set[str] = set()
    nodes: list[onnx.NodeProto] = []

    def collect(graph: onnx.GraphProto) -> None:
        known.update(t.name for t in graph.initializer)
        for info in (*graph.input, *graph.value_info, *graph.output):
            (known if info.type.WhichOneof("value") else untyped).add(info.name)
        for node in graph.node:
            nodes.append(node)
            for body in subgraphs(node):
                collect(body)

    collect(inferred.graph)
    known -= untyped  # names of bodies may be those of the graph around them
    for node in nodes:
        unknown = [name for name in node.input if name and name not in known] if node.op_type in operators else []
        if unknown:
            raise ModelError(f"layer {node.name!r} ({node.op_type}): the type of its input {unknown[0]!r} is not known, "
                             "needed it declared in the model")


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

    Raises ModelError for functions that call themselves, ResourceLimitError for too many nodes.
    """
    maps = "SequenceMap" in operators_of([*proto.graph.node, *(node for f in proto.functions for node in f.node)])
    if not proto.functions and not maps:
        return proto
    in_force().check("nodes", _expanded_size(proto), "the number of the model's nodes once its functions are inlined is")
    return inlined(proto, ("SequenceMap",) if maps else ())


def inlined(proto: onnx.ModelProto, operators: Sequence[str] = ()) -> onnx.ModelProto:
    """The model without calls of its functions and of some of ONNX's operators. Raises ModelError when onnx cannot."""
    try:
        result = onnx.inliner.inline_local_functions(without_weights(proto), convert_version=True)
        if operators:
            names = [("", name) for name in operators]
            _need_types(result, operators)
            result = onnx.inliner.inline_selected_functions(result, names, inline_schema_functions=True)
    except (RuntimeError, ValueError, DecodeError, *_REFUSALS) as error:
        raise ModelError(f"the model's functions cannot be inlined: {str(error).strip().splitlines()[0]}") from error
    declared = {info.name for info in proto.graph.input}
    inputs = [info for info in result.graph.input if info.name in declared]
    del result.graph.input[:]
    result.graph.input.extend(inputs)
    result.graph.initializer.extend(proto.graph.initializer)
    return result


def operators_of(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """The operators of ONNX's own domain that nodes and their bodies call."""
    found: set[str] = set()
    for node in nodes:
        if node.domain in ("", "ai.onnx"):
            found.add(node.op_type)
        for body in subgraphs(node):
            found |= operators_of(body.node)
    return found


def without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
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
            in_force().check("nesting", len(active), f"function {key[1]!r} of domain {key[0]!r}: calls in functions are nested")
            sizes[key] = total(bodies[key])
            active.pop()
        return sizes[key]

    return total(proto.graph.node)
