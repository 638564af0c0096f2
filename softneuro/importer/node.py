"""What a family's converter sees of one ONNX node, and how it makes layers of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import onnx

from softneuro.errors import ModelError, UnsupportedOp
from softneuro.graph import Graph, Layer
from softneuro.importer.known_types import KnownType
from softneuro.ops.base import Op
from softneuro.types import Array, DType, TensorType

__all__ = ["Converter", "Converters", "Node", "Scope", "tensor_dtype"]


def tensor_dtype(element: int) -> DType:
    """The data type of an ONNX element type; OTHER for an unknown one."""
    if element == onnx.TensorProto.UNDEFINED or element not in onnx.TensorProto.DataType.values():
        return DType.OTHER
    return DType.of(onnx.helper.tensor_dtype_to_np_dtype(element))


class Scope(Protocol):
    """The graph that a node is part of."""

    @property
    def opsets(self) -> Mapping[str, int]:
        """Operator set versions by domain."""

    def constant(self, tensor: str) -> Array | None:
        """The value of a constant of this graph or one around it."""

    def add_constant(self, tensor: str, value: Array) -> None:
        """Make the tensor a constant of this graph."""

    def tensor_type(self, tensor: str) -> KnownType:
        """What is known of a tensor's type."""

    def least_type(self, tensor: str) -> TensorType:
        """The tensor's type with 0 for every size that is not known, and f32 for a data type that is not."""

    def is_read(self, tensor: str) -> bool:
        """Whether any node reads the tensor, or it is an output of the graph."""

    def fresh_tensor(self, name: str) -> str:
        """The name, made unique among tensors."""

    def fresh_layer(self, name: str) -> str:
        """The name, made unique among layers."""

    def body(self, graph: onnx.GraphProto) -> tuple[Graph, tuple[str, ...]]:
        """A nested graph as a Graph whose inputs are its own, then the sorted names it captures.

        Constants of the graphs around it become constants of its own.
        """

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The elements of a tensor attribute."""

    def dense(self, tensor: onnx.SparseTensorProto) -> Array:
        """The elements of a sparse tensor attribute."""


class Node:
    """One ONNX node: attributes as Python values, absent inputs and outputs as empty names (none at the end)."""

    def __init__(self, proto: onnx.NodeProto, index: int, scope: Scope) -> None:
        if proto.domain == "ai.onnx":  # the long name of the domain that is usually left empty
            renamed = onnx.NodeProto()
            renamed.CopyFrom(proto)
            renamed.domain = ""
            proto = renamed
        self.proto, self.scope = proto, scope
        self.op_type, self.domain = proto.op_type, proto.domain
        self.name = proto.name or f"{proto.op_type}_{index}"
        self.inputs = _without_absent_tail(proto.input)
        self.outputs = _without_absent_tail(proto.output)
        self.attributes = {a.name: self._attribute(a) for a in proto.attribute}
        if self.domain not in scope.opsets:
            raise ModelError(
                f"layer {self.name!r} ({self.op_type}): domain {self.domain!r} has no operator set version in the model, "
                "needed one: export it again"
            )
        self.opset = scope.opsets[self.domain]

    def _attribute(self, proto: onnx.AttributeProto) -> Any:
        if proto.ref_attr_name:
            raise ModelError(f"layer {self.name!r} ({self.op_type}): attribute {proto.name!r} refers to attribute "
                             f"{proto.ref_attr_name!r} of a function, needed a value of its own outside of functions")
        try:
            return _value_of(proto)
        except ValueError as error:
            raise ModelError(f"layer {self.name!r} ({self.op_type}): attribute {proto.name!r} has type {proto.type}, "
                             "needed one that ONNX defines") from error

    def __str__(self) -> str:
        domain = f"domain {self.domain!r}, " if self.domain else ""
        return f"layer {self.name!r} ({self.op_type}, {domain}opset {self.opset})"

    def error(self, sentence: str) -> ModelError:
        """A ModelError that names this node."""
        return ModelError(f"{self}: {sentence}")

    def unsupported(self, sentence: str) -> UnsupportedOp:
        """An UnsupportedOp that names this node."""
        return UnsupportedOp(f"{self}: {sentence}")

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute's value, or the default."""
        return self.attributes.get(attribute, default)

    def ints(self, attribute: str) -> tuple[int, ...] | None:
        """A list attribute as a tuple, None when it is absent."""
        value = self.attributes.get(attribute)
        return None if value is None else tuple(int(v) for v in value)

    def has(self, position: int) -> bool:
        """Whether an (optional) input is there."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def only_output(self, position: int = 0) -> bool:
        """Whether nothing reads an output but this one."""
        return not any(self.scope.is_read(name) for i, name in enumerate(self.outputs) if name and i != position)

    def constant(self, position: int) -> Array | None:
        """The value of an input that is a constant; None when it is absent or computed."""
        return self.scope.constant(self.inputs[position]) if self.has(position) else None

    def dtype(self, position: int) -> DType:
        """The data type of an input, OTHER when it is not known or one that no kernel knows."""
        return tensor_dtype(self.scope.tensor_type(self.inputs[position])[0]) if self.has(position) else DType.OTHER

    def shape(self, position: int) -> tuple[int | None, ...] | None:
        """What is known of the shape of an input before any run, None when not even the rank."""
        return self.scope.tensor_type(self.inputs[position])[1] if self.has(position) else None

    def rank(self, position: int) -> int | None:
        """The rank of an input, None when it is not known."""
        shape = self.shape(position)
        return None if shape is None else len(shape)

    def is_exotic(self) -> bool:
        """Whether an input or output is known to have elements that numpy has no type for: float8, int4 and such."""
        elements = {self.scope.tensor_type(name)[0] for name in (*self.inputs, *self.outputs) if name}
        return any(element and tensor_dtype(element) is DType.OTHER for element in elements)

    def add_constant(self, suffix: str, value: Array) -> str:
        """A new constant; its name."""
        name = self.tensor(suffix)
        self.scope.add_constant(name, value)
        return name

    def tensor(self, suffix: str) -> str:
        """A fresh tensor name."""
        return self.scope.fresh_tensor(f"{self.outputs[0] if self.outputs else self.name}/{suffix}")

    def layer(self, op: Op, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Layer:
        """A layer of this node, by default from all its inputs to all its outputs."""
        return Layer(
            self.scope.fresh_layer(self.name),
            op,
            tuple(self.inputs if inputs is None else inputs),
            tuple(self.outputs if outputs is None else outputs),
        )

    def chain(self, source: str, *ops: Op) -> tuple[Layer, ...]:
        """Layers of one input and one output each, from ``source`` to the node's output."""
        layers = []
        for position, op in enumerate(ops):
            target = self.outputs[0] if position == len(ops) - 1 else self.tensor(op.name)
            layers.append(self.layer(op, (source,), (target,)))
            source = target
        return tuple(layers)


Converter: TypeAlias = Callable[[Node], tuple[Layer, ...] | None]
"""A node's layers; None when our ops do not cover this form of it, which the ONNX reference then runs."""
Converters: TypeAlias = Mapping[str, Converter]


def _without_absent_tail(names: Sequence[str]) -> tuple[str, ...]:
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def _value_of(proto: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode("utf-8", "replace") for v in value]
    return value
