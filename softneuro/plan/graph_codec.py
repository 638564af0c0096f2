"""A graph as plain data (what JSON can hold) and back; constants go to a blob store on the side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softneuro.control import CONTROL_OPS, BodyOp
from softneuro.errors import PlanError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Op
from softneuro.ops.text import format_op, parse_op
from softneuro.types import Array, DType, TensorType

__all__ = ["decode_graph", "encode_graph"]

Store = Callable[[Array], int]
Fetch = Callable[[int], Array]


def encode_graph(graph: Graph, store: Store) -> dict[str, Any]:
    """``store(array)`` keeps a constant and returns its number."""
    return {
        "name": graph.name,
        "inputs": [[n, str(i.dtype), None if i.shape is None else list(i.shape)] for n, i in graph.inputs.items()],
        "outputs": list(graph.outputs),
        "layers": [[y.name, _encode_op(y.op, store), list(y.inputs), list(y.outputs)] for y in graph.layers],
        "constants": {name: store(array) for name, array in graph.constants.items()},
        "types": {name: str(type_) for name, type_ in graph.types.items()},
    }


def _encode_op(op: Op, store: Store) -> Any:
    if not isinstance(op, BodyOp):
        return format_op(op)
    bodies = {name: encode_graph(graph, store) for name, graph in op.bodies().items()}
    return {"op": op.name, "fields": op.body_fields(), "bodies": bodies}


def decode_graph(data: Any, fetch: Fetch) -> Graph:
    """Inverse of `encode_graph`. Raises PlanError for anything that is not such data."""
    try:
        graph = Graph(
            inputs={n: GraphInput(DType(d), None if s is None else tuple(_dim(v) for v in s)) for n, d, s in data["inputs"]},
            outputs=tuple(map(str, data["outputs"])),
            layers=tuple(
                Layer(str(name), _decode_op(op, fetch), tuple(map(str, inputs)), tuple(map(str, outputs)))
                for name, op, inputs, outputs in data["layers"]
            ),
            constants={str(name): fetch(index) for name, index in data["constants"].items()},
            types={str(name): TensorType.parse(text) for name, text in data["types"].items()},
            name=str(data["name"]),
        )
        graph.verify()
    except PlanError:
        raise
    except Exception as error:
        raise PlanError(f"plan's graph is damaged: {error}") from error
    return graph


def _dim(value: Any) -> int | str | None:
    if value is None or isinstance(value, (int, str)):
        return value
    raise PlanError(f"plan's graph is damaged: found dimension {value!r}, needed a number, a name or null")


def _decode_op(data: Any, fetch: Fetch) -> Op:
    if isinstance(data, str):
        return parse_op(data)
    bodies: Mapping[str, Graph] = {k: decode_graph(g, fetch) for k, g in data["bodies"].items()}
    return CONTROL_OPS[data["op"]].from_bodies(data["fields"], bodies)
