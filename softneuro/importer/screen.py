"""A model's sizes against the limits in force, before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import onnx

from softneuro.errors import ModelError
from softneuro.importer.functions import subgraphs
from softneuro.limits import ResourceLimits, in_force
from softneuro.ops.onnx_op import unsound

__all__ = ["element_bits", "screen", "tensor_nbytes"]


def element_bits(data_type: int) -> int:
    """Bits of one element as stored; 0 for texts and for types that ONNX does not define."""
    types = onnx.TensorProto
    if data_type in (types.UNDEFINED, types.STRING) or data_type not in types.DataType.values():
        return 0
    if data_type in (types.INT4, types.UINT4, types.FLOAT4E2M1):
        return 4
    if data_type in (getattr(types, "INT2", -1), getattr(types, "UINT2", -1)):
        return 2
    return 8 * onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize


def tensor_nbytes(tensor: onnx.TensorProto) -> int:
    """Bytes of the tensor's elements, by its shape."""
    bits: int = math.prod(tensor.dims) * element_bits(tensor.data_type)
    return -(-bits // 8)


def screen(proto: onnx.ModelProto, what: str) -> None:
    """Raise ResourceLimitError when a model has too many or too deeply nested nodes, or tensors or texts that are too
    large; ModelError when a tensor has a negative size. Nothing is read or made."""
    _Screen(in_force(), what).model(proto)


class _Screen:
    """The counts so far."""

    def __init__(self, limits: ResourceLimits, what: str) -> None:
        self._limits, self._what = limits, what
        self._nodes = self._weight_bytes = 0

    def model(self, proto: onnx.ModelProto) -> None:
        imports = [entry for owner in (proto, *proto.functions) for entry in owner.opset_import]
        self._texts("opset_import", [entry.domain for entry in imports])
        self._graph(proto.graph, 0)
        for function in proto.functions:
            self._texts(function.name, (function.name, function.domain, function.overload, *function.input, *function.output,
                                        *function.attribute))  # fmt: skip
            self._attributes(function.attribute_proto, 1)
            self._each(function.node, 1)

    def _graph(self, graph: onnx.GraphProto, depth: int) -> None:
        self._limits.check("nesting", depth, f"{self._what}: graph {_short(graph.name)}: bodies in bodies are nested")
        self._texts("the graph's name", (graph.name,))
        for tensor in _tensors(graph):
            self._tensor(tensor)
        for sparse in graph.sparse_initializer:
            self._dense(sparse)
        for info in (*graph.input, *graph.output):
            dims = info.type.tensor_type.shape.dim
            self._texts(info.name, (info.name, *(dim.dim_param for dim in dims)))
            self._limits.check("rank", len(dims), f"tensor {_short(info.name)}: is declared with rank")
        self._each(graph.node, depth)

    def _each(self, nodes: Iterable[onnx.NodeProto], depth: int) -> None:
        for node in nodes:
            self._nodes += 1
            self._limits.check("nodes", self._nodes, f"{self._what}: the number of nodes is at least")
            self._node(node, depth)

    def _node(self, node: onnx.NodeProto, depth: int) -> None:
        self._texts(node.name or node.op_type, (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output))
        if not (node.op_type.isprintable() and node.domain.isprintable()):
            raise ModelError(f"{self._what}: found an operator {node.op_type!r} of domain {node.domain!r}, "
                             "needed printable names: export the model again")
        fault = unsound(node)
        if fault:
            raise ModelError(f"layer {_short(node.name or node.op_type)} ({node.op_type}): {fault}")
        self._attributes(node.attribute, depth)
        for body in subgraphs(node):
            self._graph(body, depth + 1)

    def _attributes(self, attributes: Iterable[onnx.AttributeProto], depth: int) -> None:
        for attribute in attributes:
            self._texts(attribute.name, (attribute.name, attribute.ref_attr_name))
            for text in (attribute.s, *attribute.strings):
                self._limits.check("text_bytes", len(text), f"{self._what}: a text of {_short(attribute.name)} has")
            for tensor in (attribute.t, attribute.sparse_tensor.values, *attribute.tensors):
                self._tensor(tensor)
            if attribute.HasField("sparse_tensor"):
                self._dense(attribute.sparse_tensor)

    def _texts(self, where: str, texts: Iterable[str]) -> None:
        for text in texts:
            if isinstance(text, bytes):  # what protobuf gives for bytes that are no UTF-8
                raise ModelError(f"{self._what}: found a name with the bytes {text[:40]!r}, needed UTF-8: export the model again")
            self._limits.check("text_bytes", len(text), f"{self._what}: a text of {_short(where)} has")

    def _tensor(self, tensor: onnx.TensorProto) -> None:
        if any(size < 0 for size in tensor.dims):
            raise ModelError(f"tensor {tensor.name!r}: found shape {tuple(tensor.dims)}, needed sizes of at least 0")
        self._texts("a tensor's name", (tensor.name,))
        where = f"tensor {_short(tensor.name)}:"
        self._limits.check("rank", len(tensor.dims), f"{where} has rank")
        nbytes = tensor_nbytes(tensor)
        self._limits.check("tensor_bytes", nbytes, f"{where} shape {tuple(tensor.dims)} needs")
        self._weight_bytes += nbytes
        self._limits.check("weight_bytes", self._weight_bytes, f"{self._what}: its constants up to {where[:-1]} need")

    def _dense(self, sparse: onnx.SparseTensorProto) -> None:
        needed = math.prod(sparse.dims) * element_bits(sparse.values.data_type) // 8
        where = f"sparse tensor {_short(sparse.values.name)}"
        if any(size < 0 for size in sparse.dims):
            raise ModelError(f"{where}: found shape {tuple(sparse.dims)}, needed sizes of at least 0")
        self._limits.check("rank", len(sparse.dims), f"{where} has rank")
        self._limits.check("tensor_bytes", needed, f"{where} of shape {tuple(sparse.dims)} needs")


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices


def _short(text: str | bytes) -> str:
    return repr(text if len(text) <= 80 else text[:80])
