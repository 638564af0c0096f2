"""Any ONNX node without a class of its own, run on the host by onnx's reference implementation."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from softneuro.errors import DynamicShape, InputError, ResourceLimitError
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.types import Array, DType, TensorType

if TYPE_CHECKING:
    import onnx
    from onnx.reference import ReferenceEvaluator

__all__ = ["OnnxOp", "reads_files", "unsound"]

MAX_KNOWN = 64  # elements of an input whose value shape inference may look at

LONG_VECTOR = 1 << 16  # elements of a vector above which no shapes are computed with it

MISINFERRED = {"STFT"}  # onnx 1.23 ignores that it is one-sided by default

RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

GROWING = {
    "AffineGrid", "BlackmanWindow", "CenterCropPad", "Col2Im", "ConstantOfShape", "DFT", "Einsum", "Expand", "EyeLike",
    "GridSample", "HammingWindow", "HannWindow", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "Multinomial", "OneHot",
    "Pad", "RandomNormal", "RandomUniform", "Range", "Resize", "RoiAlign", "STFT", "Tile", "Upsample",
}  # fmt: skip

_TERM = rb"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(_TERM + rb"(?:," + _TERM + rb")*(?:->" + _TERM + rb")?")

Known = tuple[tuple[int, str, tuple[int, ...], bytes], ...]


@dataclass(frozen=True)
class OnnxOp(Op):
    """A serialised NodeProto under the operator set versions of its model. Inputs and outputs: the node's own.

    The node names every position once (absent ones are empty), so that equal layers are equal values.
    known: small inputs whose value is known before the run, as (position, data type, shape, bytes): only shape
    inference looks at them.
    Values may be anything that the reference implementation takes and gives: arrays, lists (sequences), None.
    """

    name: ClassVar[str] = "onnx_op"
    node: bytes
    opsets: tuple[tuple[str, int], ...]
    known: Known = ()

    @property
    def op_type(self) -> str:
        """The ONNX operator's type, like ``NonMaxSuppression``."""
        return _op_type(self.node)

    def is_repeatable(self) -> bool:
        return _op_type(self.node) not in RANDOM

    def may_grow(self) -> bool:
        return _op_type(self.node) in GROWING

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.known or not any(_is_small(value) for value in values):
            return None
        try:
            self.infer(types)
        except InputError:
            known = tuple(
                (i, DType.of(v.dtype).value, tuple(v.shape), v.tobytes())
                for i, v in enumerate(values)
                if v is not None and _is_small(v)
            )
            return Bound(replace(self, known=known), tuple(range(len(values))))
        return None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return _inferred(self.node, self.opsets, self.known, tuple(types))

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        elements = tuple(_element(value) for value in inputs)
        try:
            (names, outputs), evaluator = _evaluator(self.node, self.opsets, elements)
            feeds = {name: value for name, value in zip(names, inputs, strict=False) if name}
            results = iter(evaluator.run(None, feeds))
        except MemoryError as error:
            raise ResourceLimitError(f"onnx's reference implementation: {_first_line(error)}") from error
        except Exception as error:  # the reference implementations raise whatever numpy raises
            raise InputError(f"onnx's reference implementation: {_first_line(error)}") from error
        return tuple(_as_array(next(results)) if name else None for name in outputs)  # type: ignore[misc]


@functools.cache
def _op_type(node: bytes) -> str:
    return str(_parsed(node).op_type)


def _is_small(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.size <= MAX_KNOWN
        and DType.of(value.dtype) not in (DType.OTHER, DType.STR)
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _as_array(result: Any) -> Any:
    return np.asarray(result) if isinstance(result, (np.generic, bool, int, float, str)) else result


def _element(value: Any) -> int:
    """The ONNX element type of a value; 0 for a sequence or an absent one."""
    import onnx

    if not isinstance(value, np.ndarray):
        return 0
    if DType.of(value.dtype) is DType.STR:
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))


def _parsed(node: bytes) -> onnx.NodeProto:
    """The node. Raises InputError for bytes that are none, or one that would read files."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.NodeProto()
    try:
        proto.ParseFromString(node)
        files, fault = reads_files(proto), next(filter(None, map(unsound, _with_inner_nodes(proto))), "")
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"found {len(node)} bytes that are no ONNX node, needed one") from error
    if files:
        raise InputError(f"{proto.op_type}: found a tensor whose data lie in a file, needed them in the node")
    if fault:
        raise InputError(f"{proto.op_type}: {fault}")
    return proto


_AXES = frozenset({"axis", "axes", "perm", "batch_axis", "time_axis", "batch_dims"})
_MOST_AXES = 1 << 16


def unsound(node: onnx.NodeProto) -> str:
    """What in a node would make onnx's shape inference hang or abort the process, as found and needed; empty when nothing."""
    for attribute in node.attribute:
        if node.op_type == "Einsum" and attribute.name == "equation" and not _EQUATION.fullmatch(attribute.s):
            return f"found equation {attribute.s!r}, needed one like ij,jk->ik"
        if node.op_type == "Split" and attribute.name == "num_outputs" and attribute.i != len(node.output):
            return f"found {len(node.output)} outputs, needed {attribute.i} as num_outputs says"
        if attribute.name in _AXES and any(abs(axis) > _MOST_AXES for axis in (attribute.i, *attribute.ints)):
            return f"found {attribute.name} {attribute.i or list(attribute.ints)!r:.80}, needed axes of a tensor"
    return ""


def _with_inner_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    yield node
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _with_inner_nodes(inner)


def reads_files(node: onnx.NodeProto) -> bool:
    """Whether a tensor in the node's attributes or bodies has its data in a file, which the reference would read wherever
    it is."""
    for attribute in node.attribute:
        sparse = (attribute.sparse_tensor, *attribute.sparse_tensors)
        tensors = [attribute.t, *attribute.tensors, *(part for s in sparse for part in (s.values, s.indices))]
        for graph in (attribute.g, *attribute.graphs):
            tensors += [*graph.initializer, *(part for s in graph.sparse_initializer for part in (s.values, s.indices))]
            if any(map(reads_files, graph.node)):
                return True
        if any(tensor.data_location or tensor.external_data for tensor in tensors):
            return True
    return False


def _model(
    node: onnx.NodeProto,
    opsets: Sequence[tuple[str, int]],
    inputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """A model of this one node."""
    import onnx

    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs, constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in opsets])


@functools.lru_cache(maxsize=1024)
def _evaluator(
    node: bytes, opsets: tuple[tuple[str, int], ...], elements: tuple[int, ...]
) -> tuple[tuple[list[str], list[str]], ReferenceEvaluator]:
    """The node's input and output names, and its evaluator. Element types matter to ops defined as functions."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = _parsed(node)
    names = list(proto.input), list(proto.output)
    inputs = [
        onnx.helper.make_tensor_value_info(name, element, None) if element else onnx.ValueInfoProto(name=name)
        for name, element in zip(proto.input, elements, strict=False)
        if name
    ]
    return names, ReferenceEvaluator(_model(proto, opsets, inputs, ()))


@functools.lru_cache(maxsize=4096)
def _inferred(
    node: bytes, opsets: tuple[tuple[str, int], ...], known: Known, types: tuple[TensorType | None, ...]
) -> tuple[TensorType, ...]:
    """Output types by onnx's shape inference. Raises DynamicShape when it cannot tell."""
    import onnx

    proto = _parsed(node)
    if proto.op_type in MISINFERRED:
        raise DynamicShape(f"{proto.op_type}: onnx's shape inference is wrong")
    values = {
        position: np.frombuffer(data, DType(dtype).numpy).reshape(shape) for position, dtype, shape, data in known
    }
    inputs, constants = {}, {}
    for position, (name, type_) in enumerate(zip(proto.input, types, strict=False)):
        if not name or type_ is None:
            continue
        if type_.dtype is DType.OTHER:
            raise DynamicShape(
                f"{proto.op_type}: the output's type depends on the run (input {position} is no plain tensor)"
            )
        if position in values:
            constants[name] = onnx.numpy_helper.from_array(values[position], name)
        else:
            inputs[name] = onnx.helper.make_tensor_value_info(name, _onnx_element(type_.dtype), type_.shape)
    model = _model(proto, opsets, list(inputs.values()), list(constants.values()))
    short = all(t is None or t.rank != 1 or t.size <= LONG_VECTOR for t in types)  # each element becomes an object
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=short)
    except onnx.shape_inference.InferenceError as error:
        raise DynamicShape(f"{proto.op_type}: {_first_line(error)}") from error
    found = {info.name: info.type for info in inferred.graph.output}
    return tuple(_tensor_type(proto.op_type, name, found) for name in proto.output)


def _onnx_element(dtype: DType) -> int:
    import onnx

    return int(onnx.TensorProto.STRING if dtype is DType.STR else onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy))


def _tensor_type(op_type: str, name: str, found: dict[str, onnx.TypeProto]) -> TensorType:
    import onnx

    if not name:
        return TensorType(DType.OTHER, ())
    type_ = found[name]
    dims = (
        type_.tensor_type.shape.dim if type_.HasField("tensor_type") and type_.tensor_type.HasField("shape") else None
    )
    if dims is None or not all(dim.HasField("dim_value") for dim in dims):
        raise DynamicShape(f"{op_type}: the shape of output {name!r} depends on the data of the run")
    element = type_.tensor_type.elem_type
    dtype = DType.STR if element == onnx.TensorProto.STRING else DType.of(onnx.helper.tensor_dtype_to_np_dtype(element))
    return TensorType(dtype, tuple(dim.dim_value for dim in dims))
