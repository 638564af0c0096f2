"""A graph as plain data (what JSON can hold) and back; constants go to a blob store on the side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softneuro.control import CONTROL_OPS, BodyOp
from softneuro.errors import PlanError, ResourceLimitError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.limits import in_force
from softneuro.ops.base import Op
from softneuro.ops.text import format_op, parse_op
from softneuro.quantisation import Quantisation
from softneuro.types import Array, DType, TensorType

__all__ = ["decode_graph", "encode_graph"]

Store = Callable[[Array], int]
Fetch = Callable[[int], Array]


def encode_graph(graph: Graph, store: Store) -> dict[str, Any]:
    """``store(array)`` keeps a constant and returns its number."""
    return {
        "name": graph.name,
        "inputs": [[n, *_encode_input(i)] for n, i in graph.inputs.items()],
        "outputs": list(graph.outputs),
        "layers": [[y.name, _encode_op(y.op, store), list(y.inputs), list(y.outputs)] for y in graph.layers],
        "constants": {name: store(array) for name, array in graph.constants.items()},
        "types": {name: str(type_) for name, type_ in graph.types.items()},
        "quantisations": {name: [q.scale, q.zero] for name, q in graph.quantisations.items()},
    }


def _encode_input(declared: GraphInput) -> list[Any]:
    return [str(declared.dtype), None if declared.shape is None else list(declared.shape), declared.kind]


def _decode_input(dtype: Any, shape: Any, kind: Any = "") -> GraphInput:
    return GraphInput(DType(dtype), None if shape is None else tuple(map(_dim, shape)), _text(kind))


def _encode_op(op: Op, store: Store) -> Any:
    if not isinstance(op, BodyOp):
        return format_op(op)
    bodies = {name: encode_graph(graph, store) for name, graph in op.bodies().items()}
    return {"op": op.name, "fields": op.body_fields(), "bodies": bodies}


def decode_graph(data: Any, fetch: Fetch) -> Graph:
    """Inverse of `encode_graph`. Raises PlanError for anything that is not such data, ResourceLimitError for too many or
    too deeply nested layers."""
    return _Decoder(fetch).graph(data, 0)


class _Decoder:
    """The count of layers decoded so far."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._layers = 0

    def graph(self, data: Any, depth: int) -> Graph:
        try:
            return self._graph(data, depth)
        except (PlanError, ResourceLimitError):
            raise
        except Exception as error:
            raise PlanError(f"its graph is damaged: {' '.join(str(error).split())}: tune the model again") from error

    def _graph(self, data: Any, depth: int) -> Graph:
        in_force().check("nesting", depth, "bodies in bodies are nested")
        self._layers += len(data["layers"])
        in_force().check("nodes", self._layers, "the number of layers is at least")
        graph = Graph(
            inputs={_text(name): _decode_input(*declared) for name, *declared in data["inputs"]},
            outputs=tuple(map(_text, data["outputs"])),
            layers=tuple(
                Layer(_text(name), self._op(op, depth), tuple(map(_text, inputs)), tuple(map(_text, outputs)))
                for name, op, inputs, outputs in data["layers"]
            ),
            constants={name: self._fetch(index) for name, index in data["constants"].items()},
            types={name: TensorType.parse(text) for name, text in data["types"].items()},
            name=_text(data["name"]),
            quantisations={_text(name): _quantisation(*numbers) for name, numbers in data.get("quantisations", {}).items()},
        )
        graph.verify()
        return graph

    def _op(self, data: Any, depth: int) -> Op:
        if isinstance(data, str):
            return parse_op(data)
        bodies: Mapping[str, Graph] = {name: self.graph(body, depth + 1) for name, body in data["bodies"].items()}
        return CONTROL_OPS[data["op"]].from_bodies(data["fields"], bodies)


def _quantisation(scale: Any, zero: Any) -> Quantisation:
    if type(scale) not in (int, float) or type(zero) is not int:
        raise PlanError(f"its graph is damaged: found quantisation {scale!r:.40}, {zero!r:.40}, needed two numbers: "
                        "tune the model again")
    return Quantisation(float(scale), zero)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PlanError(f"its graph is damaged: found {value!r:.80}, needed a text: tune the model again")
    return value


def _dim(value: Any) -> int | str | None:
    if value is None or isinstance(value, str) or (type(value) is int and 0 <= value < 1 << 63):
        return value
    raise PlanError(f"its graph is damaged: found dimension {value!r:.80}, needed a number, a name or null: tune the model again")
