"""Layers on 16-bit floats compute in float32, with conversions only where the graph begins and ends.

    x:f16 ── Conv(w:f16) ── Relu ── y:f16     →     x:f16 ── cast ── Conv(w:f32) ── Relu ── cast ── y:f16
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softneuro.control import CONTROL_OPS
from softneuro.graph import Graph, Layer, live_layers
from softneuro.ops.absent import Absent
from softneuro.ops.gather import Gather
from softneuro.ops.gather_elements import GatherElements
from softneuro.ops.movement import BroadcastTo, DepthToSpace, Expand, SpaceToDepth, Tile, Transpose
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.padding import Pad
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.ops.pointwise_opcodes import CAST_PREFIX
from softneuro.ops.shape import Constant, ConstantOfShape, Fill, Shape, Size
from softneuro.ops.slicing import Concat, Slice, Split, StridedSlice
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze, View
from softneuro.types import Array, DType, TensorType

__all__ = ["widen"]

_HALF = (DType.F16, DType.BF16)
_KEPT = (OnnxOp, Constant, ConstantOfShape, Fill, Absent, *CONTROL_OPS.values())
"""Ops that say themselves which data type they make, or are given to the host as they are."""
_MOVERS = (
    View, Reshape, Flatten, Squeeze, Unsqueeze, Identity, Transpose, DepthToSpace, SpaceToDepth, BroadcastTo, Expand, Tile,
    Concat, Split, Slice, StridedSlice, Pad, Gather, GatherElements, Shape, Size,
)  # fmt: skip
"""Ops that compute no numbers: on what has no float32 form yet they move 16 bits, a table of embeddings for example."""
_WIDE_CAST = f"{CAST_PREFIX}{DType.F32}(x0)"


def widen(graph: Graph) -> Graph:
    """Products and sums of 16-bit floats are rounded to float32 instead of 16 bits: results are nearer to exact ones.

    Inputs, outputs and the constants of layers that are left alone keep their types. A cast that the model has between
    float32 and 16 bits and back still rounds. Layers of unknown types (after a shape that only the run tells) are kept.
    """
    known = [*graph.types.values(), *(TensorType(i.dtype, ()) for i in graph.inputs.values())]
    halves = any(t.dtype in _HALF for t in known) or any(DType.of(a.dtype) in _HALF for a in graph.constants.values())
    return _Widening(graph).result() if halves else graph


class _Widening:
    """The state of one walk: tensors of 16 bits and their float32 forms, which later layers read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = dict(graph.types) | {name: TensorType.of(value) for name, value in graph.constants.items()}
        self._constants: dict[str, Array] = dict(graph.constants)
        self._names = {*graph.inputs, *self._constants, *(name for layer in graph.layers for name in layer.outputs)}
        self._wide: dict[str, str] = {}
        self._rounded: set[str] = set()
        self._layers: list[Layer] = []

    def result(self) -> Graph:
        for layer in self._graph.layers:
            self._enter(layer)
        types = dict(self._graph.types) | {name: self._types[name] for name in self._wide.values()}
        whole = replace(self._graph, types=types).with_layers(self._layers, self._constants)
        return whole.with_layers(live_layers(whole))

    def _dtype(self, tensor: str) -> DType | None:
        type_ = self._types.get(tensor)
        return type_.dtype if type_ else None

    def _enter(self, layer: Layer) -> None:
        names = [name for name in (*layer.inputs, *layer.outputs) if name]
        if not any(self._dtype(name) in _HALF for name in names) or any(self._dtype(name) is None for name in names):
            self._layers.append(layer)
        elif isinstance(layer.op, Pointwise) and _is_cast(layer.op):
            self._enter_cast(layer)
        elif isinstance(layer.op, _KEPT) or (isinstance(layer.op, _MOVERS) and not self._wide.keys() & {*layer.inputs}):
            self._layers.append(layer)
        else:
            self._enter_wide(layer)

    def _enter_wide(self, layer: Layer) -> None:
        """The layer between float32 tensors, and a cast of every result for readers of 16 bits."""
        op = replace(layer.op, program=_wide_program(layer.op)) if isinstance(layer.op, Pointwise) else layer.op
        inputs = tuple(self._wide_form(name) for name in layer.inputs)
        outputs, casts = [], []
        for name in layer.outputs:
            dtype = self._dtype(name) if name else None
            outputs.append(self._add_wide(name) if dtype in _HALF else name)
            if dtype in _HALF:
                casts.append(Layer(f"{name}/narrow", Pointwise(f"{CAST_PREFIX}{dtype}(x0)"), (self._wide[name],), (name,)))
        self._layers += [replace(layer, op=op, inputs=inputs, outputs=tuple(outputs)), *casts]

    def _enter_cast(self, layer: Layer) -> None:
        """A cast of the model: its own result stays, and readers that compute in float32 skip the rounding."""
        (source,), (result,) = layer.inputs, layer.outputs
        if self._dtype(result) not in _HALF:
            rounds = self._dtype(result) is DType.F32 and source in self._rounded
            inputs = layer.inputs if rounds else (self._wide_form(source),)
            self._layers.append(replace(layer, inputs=inputs))
            return
        self._layers.append(layer)
        if self._dtype(source) is DType.F32:
            self._wide[result] = source
            self._rounded.add(result)
        else:
            inputs = (self._wide_form(source),)
            self._layers.append(Layer(f"{layer.name}/wide", Pointwise(_WIDE_CAST), inputs, (self._add_wide(result),)))

    def _wide_form(self, name: str) -> str:
        """The tensor that a layer computing in float32 reads for ``name``."""
        if not name or self._dtype(name) not in _HALF:
            return name
        if name not in self._wide:
            value = self._constants.get(name)
            wide = self._add_wide(name)
            if value is not None:
                self._constants[wide] = np.asarray(value.astype(np.float32), order="C")
            else:
                self._layers.append(Layer(f"{name}/widen", Pointwise(_WIDE_CAST), (name,), (wide,)))
        return self._wide[name]

    def _add_wide(self, name: str) -> str:
        wide, number = f"{name}/{DType.F32}", 0
        while wide in self._names:
            number += 1
            wide = f"{name}/{DType.F32}.{number}"
        self._names.add(wide)
        self._wide[name] = wide
        self._types[wide] = TensorType(DType.F32, self._types[name].shape)
        return wide


def _is_cast(op: Pointwise) -> bool:
    instructions = parse_program(op.program)
    return len(instructions) == 1 and instructions[0].opcode.startswith(CAST_PREFIX)


def _wide_program(op: Pointwise) -> str:
    """The program with every cast to 16 bits one to float32."""
    text = op.program
    for dtype in _HALF:
        text = text.replace(f"{CAST_PREFIX}{dtype}(", f"{CAST_PREFIX}{DType.F32}(")
    return text
