"""One ONNX graph to a Graph: names checked, nodes sorted, every node converted by its family."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import networkx
import onnx

from softneuro.errors import ModelError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.importer.fallback import convert_any
from softneuro.importer.functions import subgraphs
from softneuro.importer.kind import kind_of
from softneuro.importer.known_types import KnownType
from softneuro.importer.node import Node, tensor_dtype
from softneuro.importer.table import CONVERTERS, TAKES_ANY_ELEMENT
from softneuro.importer.weights import Weights
from softneuro.ops.onnx_op import reads_files
from softneuro.types import Array, DType, TensorType

__all__ = ["ModelScope", "RefusedNode", "declared_inputs", "import_graph"]


@dataclass(frozen=True)
class RefusedNode:
    """A node that cannot be converted, and the sentence that says why."""

    name: str
    domain: str
    op_type: str
    reason: str


@dataclass(frozen=True)
class ModelScope:
    """What all graphs of a model share. types: called at most once, when a converter first asks. refused: where nodes
    that cannot be converted are noted and left out; None to raise the error of the first."""

    opsets: Mapping[str, int]
    weights: Weights
    types: Callable[[], Mapping[str, KnownType]]
    refused: list[RefusedNode] | None = None


def declared_inputs(graph: onnx.GraphProto) -> dict[str, GraphInput]:
    """The graph's inputs without those that have an initialiser, which are constants."""
    constant = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    found: dict[str, GraphInput] = {}
    for info in graph.input:
        if not info.name or info.name in found:
            raise ModelError(
                f"graph {graph.name!r}: input {info.name!r} is listed twice or has no name, needed names of their own"
            )
        if info.name not in constant:
            found[info.name] = _declared(info.type)
    return found


def _declared(type_: onnx.TypeProto) -> GraphInput:
    if not type_.HasField("tensor_type"):
        return GraphInput(DType.OTHER, None, kind_of(type_))
    tensor = type_.tensor_type
    shape = tuple(_dimension(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    dtype = tensor_dtype(tensor.elem_type)
    return GraphInput(dtype, shape, kind_of(type_) if dtype is DType.OTHER else "")


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param if dim.dim_param not in ("", "?") else None  # some exporters write ? for unrelated sizes


def import_graph(proto: onnx.GraphProto, model: ModelScope, inputs: Mapping[str, GraphInput]) -> Graph:
    """A model's main graph. Raises ModelError for what is inconsistent, UnsupportedOp for what nothing implements."""
    return _Builder(proto, model, inputs, None).build()


class _Builder:
    """The state while one graph is converted; the `Scope` of its nodes."""

    def __init__(
        self, proto: onnx.GraphProto, model: ModelScope, inputs: Mapping[str, GraphInput], outer: _Builder | None
    ) -> None:
        self._proto, self._model, self._outer = proto, model, outer
        self._inputs = dict(inputs)
        self._constants = _constants(proto, model.weights)
        self._made = _made_tensors(proto, self._inputs, self._constants, model.opsets)
        self._read = {name for node in proto.node for name in _read_tensors(node)} | {info.name for info in proto.output}
        self._tensors = set(self._made)
        self._layers: set[str] = set()

    @property
    def opsets(self) -> Mapping[str, int]:
        return self._model.opsets

    def constant(self, tensor: str) -> Array | None:
        if tensor in self._constants:
            return self._constants[tensor]
        return self._outer.constant(tensor) if self._outer is not None and tensor not in self._made else None

    def add_constant(self, tensor: str, value: Array) -> None:
        self._constants[tensor] = value

    def tensor_type(self, tensor: str) -> KnownType:
        value = self.constant(tensor)
        if value is not None:
            element = onnx.TensorProto.STRING if value.dtype.hasobject else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            return int(element), tuple(value.shape)
        return self._model.types().get(tensor, (0, None))

    def least_type(self, tensor: str) -> TensorType:
        element, shape = self.tensor_type(tensor)
        dtype = tensor_dtype(element) if element else DType.F32
        return TensorType(dtype, tuple(size or 0 for size in shape or ()))

    def is_read(self, tensor: str) -> bool:
        return tensor in self._read

    def fresh_tensor(self, name: str) -> str:
        return _fresh(name, self._tensors)

    def fresh_layer(self, name: str) -> str:
        return _fresh(name, self._layers)

    def array(self, tensor: onnx.TensorProto) -> Array:
        return self._model.weights.array(tensor)

    def dense(self, tensor: onnx.SparseTensorProto) -> Array:
        return self._model.weights.dense(tensor)

    def body(self, graph: onnx.GraphProto) -> tuple[Graph, tuple[str, ...]]:
        built = _Builder(graph, self._model, declared_inputs(graph), self).build()
        values = {name: self.constant(name) for name in _captured(built)}
        constants = {name: value for name, value in values.items() if value is not None}
        captured = tuple(name for name in values if name not in constants)
        types = {name: self._captured_type(name) for name in captured}
        return replace(built, inputs={**built.inputs, **types}, constants={**built.constants, **constants}), captured

    def sees(self, tensor: str) -> bool:
        """Whether a tensor of this name is made in this graph or one around it."""
        return tensor in self._made or (self._outer is not None and self._outer.sees(tensor))

    def build(self) -> Graph:
        layers: list[Layer] = []
        for index, proto in enumerate(self._sorted()):
            layers.extend(self._converted(proto, index))
        outputs = tuple(info.name for info in self._proto.output)
        for name in outputs:
            if not self.sees(name):
                raise ModelError(f"graph {self._proto.name!r}: output {name!r} is made by no node, needed an input, a constant "
                                 "or the output of a node")
        graph = Graph(self._inputs, outputs, tuple(layers), self._constants, name=self._proto.name or "model")
        return graph.with_layers(layers)

    def _captured_type(self, name: str) -> GraphInput:
        element, shape = self.tensor_type(name)
        return GraphInput(tensor_dtype(element), shape)

    def _converted(self, proto: onnx.NodeProto, index: int) -> tuple[Layer, ...]:
        try:
            return self._convert(Node(proto, index, self))
        except ModelError as error:
            if self._model.refused is None:
                raise
            name = proto.name or f"{proto.op_type}_{index}"
            self._model.refused.append(RefusedNode(name, proto.domain, proto.op_type, str(error)))
            return ()

    def _convert(self, node: Node) -> tuple[Layer, ...]:
        _check_schema(node)
        converter = CONVERTERS.get((node.domain, node.op_type))
        if converter is None or (node.op_type not in TAKES_ANY_ELEMENT and node.is_exotic()):
            return convert_any(node)
        try:
            layers = converter(node)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise node.error(f"its attributes or constants do not fit the operator ({text}), needed those of its definition"
                             ) from error
        return convert_any(node) if layers is None else layers

    def _sorted(self) -> list[onnx.NodeProto]:
        """The nodes in an order in which each reads only what is made before, as near to the given one as can be."""
        nodes = list(self._proto.node)
        producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
        reads: networkx.DiGraph[int] = networkx.DiGraph()
        reads.add_nodes_from(range(len(nodes)))
        for i, node in enumerate(nodes):
            for name in _read_tensors(node):
                if name in producer:
                    reads.add_edge(producer[name], i)
                elif not self.sees(name):
                    raise ModelError(f"layer {_label(node, self.opsets)}: reads {name!r}, which is made by no node, needed an "
                                     "input, a constant or the output of a node: export the model again")
        if all(earlier < later for earlier, later in reads.edges):
            return nodes
        try:
            return [nodes[i] for i in networkx.lexicographical_topological_sort(reads)]
        except networkx.NetworkXUnfeasible:
            stuck = nodes[networkx.find_cycle(reads)[0][0]]
            raise ModelError(f"layer {_label(stuck, self.opsets)}: is part of a cycle, needed an order to run the nodes in: "
                             "export the model again") from None


def _label(node: onnx.NodeProto, opsets: Mapping[str, int]) -> str:
    domain = "" if node.domain in ("", "ai.onnx") else node.domain
    shown = f"domain {domain!r}, " if domain else ""
    return f"{(node.name or node.op_type)!r} ({node.op_type}, {shown}opset {opsets.get(domain, 'unknown')})"


def _constants(graph: onnx.GraphProto, weights: Weights) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, value in ((t.name, weights.array(t)) for t in graph.initializer):
        _add_once(graph, found, name, value)
    for sparse in graph.sparse_initializer:
        _add_once(graph, found, sparse.values.name, weights.dense(sparse))
    return found


def _add_once(graph: onnx.GraphProto, found: dict[str, Array], name: str, value: Array) -> None:
    if not name or name in found:
        raise ModelError(f"graph {graph.name!r}: initialiser {name!r} is there twice or has no name, needed names of their own")
    found[name] = value


def _made_tensors(graph: onnx.GraphProto, inputs: Iterable[str], constants: Iterable[str],
                  opsets: Mapping[str, int]) -> set[str]:
    """Every tensor name of the graph. Raises ModelError when one is made twice."""
    made = {*inputs, *constants}
    for node in graph.node:
        for name in node.output:
            if name and name in made:
                raise ModelError(f"layer {_label(node, opsets)}: makes {name!r}, which exists already, needed a name of its own")
            made.add(name)
    return made - {""}


def _read_tensors(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads: its inputs, and what its bodies capture."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        names.extend(_free_tensors(graph))
    return names


def _free_tensors(graph: onnx.GraphProto) -> set[str]:
    made = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    made.update(info.name for info in graph.input)
    made.update(name for node in graph.node for name in node.output)
    read = {name for node in graph.node for name in _read_tensors(node)} | {info.name for info in graph.output}
    return read - made


def _captured(graph: Graph) -> tuple[str, ...]:
    """What a body still reads of the graph around it, sorted."""
    made = {*graph.inputs, *graph.constants, *(name for layer in graph.layers for name in layer.outputs)}
    read = {name for layer in graph.layers for name in layer.inputs if name} | set(graph.outputs)
    return tuple(sorted(read - made))


def _fresh(name: str, taken: set[str]) -> str:
    unique, count = name, 1
    while unique in taken:
        unique, count = f"{name}_{count}", count + 1
    taken.add(unique)
    return unique


@functools.cache
def _has_schema(domain: str, op_type: str, version: int) -> bool:
    """Whether there are rules for the operator: none for one of an earlier version, which models still have."""
    known = onnx.defs.has(op_type, max_inclusive_version=version, domain=domain)
    return bool(known and not onnx.defs.get_schema(op_type, version, domain).deprecated)


def _check_schema(node: Node) -> None:
    """Raise ModelError when the node breaks its operator's signature. Converters check nodes with bodies."""
    if subgraphs(node.proto) or not _has_schema(node.domain, node.op_type, node.opset):
        return
    if reads_files(node.proto):  # the checker would look for them in the current folder
        if node.op_type != "Constant":
            raise node.error("found a tensor in an attribute whose data lie in a file, needed them in the model")
        return
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(node.scope.opsets)
    try:
        onnx.checker.check_node(node.proto, context)
    except onnx.checker.ValidationError as error:
        raise node.error(str(error).strip().splitlines()[0].rstrip(".")) from error
