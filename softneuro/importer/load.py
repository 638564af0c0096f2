"""From a path, bytes or a ModelProto to one checked ModelProto without local functions, and the folder of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from softneuro.errors import ModelError, ResourceLimitError

__all__ = ["Loaded", "load", "subgraphs"]

MAX_NODES = 1_000_000
"""How many nodes a model may have once its local functions are inlined."""


@dataclass(frozen=True)
class Loaded:
    """A model, its operator set versions by domain ("" is ONNX's own), and where external data may lie.

    path: the model's file as it was named; None for a model in memory, which has no external data.
    """

    model: onnx.ModelProto
    opsets: Mapping[str, int]
    path: Path | None


def load(model: str | Path | bytes | onnx.ModelProto) -> Loaded:
    """Read and check what does not depend on single nodes.

    Raises ModelError for bytes that are no ONNX model, an operator set that is too new, and recursive functions;
    ResourceLimitError when inlining functions would make more than `MAX_NODES` nodes.
    """
    path: Path | None = None
    if isinstance(model, onnx.ModelProto):
        proto, what = model, "the model"
    elif isinstance(model, (bytes, bytearray, memoryview)):
        proto, what = _parsed(bytes(model), "the model"), "the model"
    else:
        path = Path(model)
        what = f"model file {str(path)!r}"
        proto = _parsed(_contents(path), what)
    if proto.ir_version < 1 or not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{what}: found no graph, needed an ONNX model")
    opsets = _opsets(proto, what)
    return Loaded(_inlined(proto), opsets, path)


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"model file {str(path)!r}: cannot be read ({error.strerror or error})") from error


def _parsed(data: bytes, what: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{what}: found {len(data)} bytes that are no ONNX model or a part of one, needed a whole model"
        ) from error
    return proto


def _opsets(proto: onnx.ModelProto, what: str) -> dict[str, int]:
    """Versions by domain. Models of IR version 1 and 2 have none: they mean version 1."""
    newest = onnx.defs.onnx_opset_version()
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}
    if not opsets and proto.ir_version < 3:
        opsets[""] = 1
    if "" in opsets and not 1 <= opsets[""] <= newest:
        raise ModelError(f"{what}: uses operator set version {opsets['']}, needed one from 1 to {newest}")
    return opsets


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node's attributes hold."""
    found = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def _inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of its local functions replaced by their bodies."""
    if not proto.functions:
        return proto
    if _expanded_size(proto) > MAX_NODES:
        raise ResourceLimitError(f"the model has more than {MAX_NODES} nodes once its functions are inlined")
    # weights stay out: the inliner works on serialised models of at most 2 GB
    known = {info.name for info in proto.graph.input}
    stand_ins = [
        onnx.helper.make_tensor_value_info(w.name, w.data_type, w.dims)
        for w in proto.graph.initializer
        if w.name not in known
    ]
    graph = onnx.GraphProto(
        name=proto.graph.name,
        node=proto.graph.node,
        input=[*proto.graph.input, *stand_ins],
        output=proto.graph.output,
        sparse_initializer=proto.graph.sparse_initializer,
    )
    light = onnx.ModelProto(
        ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions, graph=graph
    )
    try:
        inlined = onnx.inliner.inline_local_functions(light)
    except (RuntimeError, ValueError, DecodeError) as error:
        raise ModelError(f"the model's functions cannot be inlined: {str(error).strip().splitlines()[0]}") from error
    inputs = [info for info in inlined.graph.input if info.name in known]
    del inlined.graph.input[:]
    inlined.graph.input.extend(inputs)
    inlined.graph.initializer.extend(proto.graph.initializer)
    return inlined


def _expanded_size(proto: onnx.ModelProto) -> int:
    """Number of nodes after inlining. Raises ModelError when a function calls itself."""
    bodies = {(f.domain, f.name, f.overload): f.node for f in proto.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    active: list[tuple[str, str, str]] = []

    def total(nodes: object) -> int:
        count = 0
        for node in nodes:  # type: ignore[attr-defined]
            count += 1 + sum(total(graph.node) for graph in subgraphs(node))
            key = (node.domain, node.op_type, node.overload)
            if key in bodies:
                count += size(key)
        return count

    def size(key: tuple[str, str, str]) -> int:
        if key in active:
            raise ModelError(
                f"function {key[1]!r} of domain {key[0]!r} calls itself, needed functions without recursion"
            )
        if key not in sizes:
            active.append(key)
            sizes[key] = total(bodies[key])
            active.pop()
        return sizes[key]

    return total(proto.graph.node)
