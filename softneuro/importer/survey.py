"""What an ONNX model is, as far as it can be told: also of one that cannot be tuned, and without reading big weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from softneuro.errors import ModelError
from softneuro.graph import Graph, GraphInput
from softneuro.importer.functions import subgraphs
from softneuro.importer.graph import RefusedNode, declared_inputs
from softneuro.importer.load import Loaded, load
from softneuro.importer.model import import_loaded
from softneuro.importer.node import tensor_dtype
from softneuro.importer.weights import Weights
from softneuro.types import Array, Shape

__all__ = ["Survey", "survey"]

_SMALL = 4096  # elements: constants up to that size may be shapes, axes and the like, which converters look at


@dataclass(frozen=True)
class Survey:
    """A model's declarations, and its graph.

    inputs, outputs: as declared. operators: how many nodes of each type, bodies included (``domain.Type`` outside of
    ONNX's own domain). parameters: elements and bytes of all constants by data type. refused: the nodes that nothing
    can run, or that break their operator's rules. problem: another reason why the model cannot be imported, else empty.
    graph: the imported graph, None when there is any of these; constants in external files have placeholders there.
    missing: external data that cannot be read, a sentence for each tensor.
    """

    name: str
    producer: str
    ir_version: int
    opsets: Mapping[str, int]
    inputs: Mapping[str, GraphInput]
    outputs: Mapping[str, GraphInput]
    operators: Mapping[str, int]
    parameters: Mapping[str, tuple[int, int]]
    refused: tuple[RefusedNode, ...]
    problem: str
    graph: Graph | None
    missing: tuple[str, ...]


def survey(path: Path, shapes: Mapping[str, Sequence[int]]) -> Survey:
    """Look at a model file. shapes: sizes of inputs that replace declared ones.

    Raises ModelError for a file that is no ONNX model at all, InputError when ``shapes`` does not fit.
    """
    loaded = load(path)
    proto = loaded.model.graph
    weights = _Outlines(path)
    refused: list[RefusedNode] = []
    graph, problem = None, ""
    try:
        graph = import_loaded(loaded, weights, _overriding(loaded, shapes), refused)
        if not refused:
            graph.verify()
    except ModelError as error:
        graph, problem = None, str(error)
    return Survey(
        proto.name, f"{loaded.model.producer_name} {loaded.model.producer_version}".strip(), loaded.model.ir_version,
        loaded.opsets, _declared(proto, {t.name for t in proto.initializer}), _declared_outputs(proto),
        dict(Counter(_operators(proto))), _parameters(proto), tuple(refused), problem, None if refused else graph,
        tuple(weights.missing),
    )  # fmt: skip


class _Outlines(Weights):
    """Weights of which only the small ones are read from external files: the others have a number of their own in
    every element, which takes no memory and makes no two of them equal."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.missing: list[str] = []
        self._placeholders = 0

    def array(self, tensor: onnx.TensorProto) -> Array:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return super().array(tensor)
        try:
            if math.prod(tensor.dims) <= _SMALL:
                return super().array(tensor)
            self._file(tensor.name, next((entry.value for entry in tensor.external_data if entry.key == "location"), ""))
        except ModelError as error:
            self.missing.append(str(error))
        self._placeholders += 1
        element = np.asarray(self._placeholders).astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        return np.broadcast_to(element, tuple(tensor.dims))


def _overriding(loaded: Loaded, shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    """The shapes that differ from declared sizes: the others leave free dimensions free."""
    declared = declared_inputs(loaded.model.graph)

    def fits(name: str, shape: Shape) -> bool:
        wanted = declared[name].shape if name in declared else ()
        return wanted is None or (
            len(wanted) == len(shape) and all(not isinstance(d, int) or d == s for d, s in zip(wanted, shape, strict=True)))

    return {name: tuple(shape) for name, shape in shapes.items() if name not in declared or not fits(name, tuple(shape))}


def _declared(graph: onnx.GraphProto, constant: set[str]) -> dict[str, GraphInput]:
    try:
        return declared_inputs(graph)
    except ModelError:  # names that are there twice
        return {info.name: GraphInput(tensor_dtype(info.type.tensor_type.elem_type), None)
                for info in graph.input if info.name not in constant}  # fmt: skip


def _declared_outputs(graph: onnx.GraphProto) -> dict[str, GraphInput]:
    unique = {info.name: info for info in graph.output if info.name}
    return declared_inputs(onnx.GraphProto(input=unique.values()))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for body in subgraphs(node):
            yield from _nodes(body)


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in _nodes(graph):
        yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Initialisers and the values of Constant nodes, bodies included."""
    yield from graph.initializer
    yield from (sparse.values for sparse in graph.sparse_initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
        for body in subgraphs(node):
            yield from _constants(body)


def _parameters(graph: onnx.GraphProto) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for tensor in _constants(graph):
        dtype = tensor_dtype(tensor.data_type)
        name = str(dtype) if dtype.value != "other" else onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        count, nbytes = found.get(name, (0, 0))
        size = max(0, math.prod(tensor.dims))
        found[name] = count + size, nbytes + _nbytes(tensor, size)
    return found


def _nbytes(tensor: onnx.TensorProto, size: int) -> int:
    """Bytes of a tensor of ``size`` elements in the file; of texts, those of their characters."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    if tensor.data_type == onnx.TensorProto.UNDEFINED or tensor.data_type not in onnx.TensorProto.DataType.values():
        return 0
    bits = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    return size * bits // 8
