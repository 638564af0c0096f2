"""Nodes that no family covers: one OnnxOp layer, if the ONNX reference implements the operator."""

from __future__ import annotations

import functools
from typing import Any

import onnx

from softneuro.graph import Layer
from softneuro.importer.functions import subgraphs
from softneuro.importer.node import Node
from softneuro.ops.onnx_op import OnnxOp, reads_files

__all__ = ["convert_any", "reference_op"]


_SUCCESSORS = {("", "Scatter"): ("ScatterElements", 11)}
"""Operators that the reference only knows under a later name: that name and its first version."""


def convert_any(node: Node) -> tuple[Layer, ...]:
    """The node as an OnnxOp. Raises UnsupportedOp when nothing implements it."""
    op_type, version = _SUCCESSORS.get((node.domain, node.op_type), (node.op_type, node.opset))
    if not _is_implemented(node.domain, op_type, version):
        raise node.unsupported("found no layer class and no reference implementation of this operator, needed one of them")
    for graph in subgraphs(node.proto):
        captured = node.scope.body(graph)[1]
        if captured:
            raise node.unsupported(f"its body reads {captured[0]!r} of the graph around it, which the reference cannot")
    if reads_files(node.proto):
        raise node.error("found a tensor in an attribute whose data lie in a file, needed them in the model")
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.domain, proto.op_type = node.domain, op_type
    proto.ClearField("name")
    proto.ClearField("doc_string")
    # positions for names, so that equal layers are equal values
    proto.ClearField("input")
    proto.input.extend(f"input{i}" if name else "" for i, name in enumerate(node.inputs))
    proto.ClearField("output")
    proto.output.extend(f"output{i}" if name else "" for i, name in enumerate(node.outputs))
    opsets = {d: v for d, v in node.scope.opsets.items() if d == ""} | {node.domain: version}
    return (node.layer(OnnxOp(proto.SerializeToString(deterministic=True), tuple(sorted(opsets.items())))),)


def reference_op(op_type: str, version: int, **attributes: Any) -> OnnxOp:
    """An operator of one input and one output, of one operator set version, run by the reference."""
    proto = onnx.helper.make_node(op_type, ["input0"], ["output0"], **attributes)
    return OnnxOp(proto.SerializeToString(deterministic=True), (("", version),))


@functools.cache
def _is_implemented(domain: str, op_type: str, version: int) -> bool:
    """Whether onnx.reference has a class or a function body for the operator."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeContextError

    evaluator = ReferenceEvaluator(
        onnx.helper.make_model(
            onnx.helper.make_graph([], "none", [], []), opset_imports=[onnx.helper.make_opsetid(domain, version)]
        )
    )
    try:
        evaluator._load_impl(onnx.helper.make_node(op_type, [], [], domain=domain))
    except RuntimeContextError:
        return True  # a function whose body depends on attributes and types
    except Exception:  # every domain's loader raises an error of its own
        return False
    return True
