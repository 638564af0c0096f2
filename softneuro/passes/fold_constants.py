"""Layers whose inputs are all constants become constants.

    w ── Transpose ── MatMul          w' ── MatMul
                 x ──┘         →      x ──┘
"""

from __future__ import annotations

import numpy as np

from softneuro.control import Call, If, Loop, Scan
from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, Layer
from softneuro.limits import in_force
from softneuro.ops.base import Op
from softneuro.ops.onnx_op import OnnxOp
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.reference import run_layer
from softneuro.types import Array, TensorType

__all__ = ["fold_constants"]

_OPAQUE = (OnnxOp, Call, If, Loop, Scan)
_FREE_BYTES = 1 << 20  # a result up to this size is always kept
_GROWTH = 4  # above, a result may be this many times as large as what it is computed from


def fold_constants(graph: Graph) -> Graph:
    """Compute what does not depend on the run, unless the result is much larger than its inputs.

    `OnnxOp` layers are left alone: they may draw random numbers, or be the dequantisation of stored weights. So are
    layers that hold graphs, which may hold such layers.
    """
    return sweep(graph, _fold)


def _fold(draft: Draft, layer: Layer) -> Outcome:
    values = {name: draft.constant(name) for name in layer.inputs if name}
    constants = {name: value for name, value in values.items() if value is not None}
    if len(constants) != len(values) or isinstance(layer.op, _OPAQUE):
        return False
    try:
        size = _result_bytes(layer, constants)
        limit = max(_FREE_BYTES, _GROWTH * sum(value.nbytes for value in constants.values()))
        if size > limit:
            return f"the result has {size} bytes, needed at most {limit}"
        with np.errstate(all="ignore"):
            results = run_layer(layer, constants)
    except (SoftneuroError, NotImplementedError) as error:
        return str(error)
    if not all(isinstance(result, np.ndarray) for result in results):
        return "a result is not a tensor"
    draft.make_constant(layer, [np.ascontiguousarray(result).reshape(result.shape) for result in results])
    return True


def _result_bytes(layer: Layer, constants: dict[str, Array]) -> int:
    """Bytes of the outputs, from shapes alone."""
    values = [constants[name] if name else None for name in layer.inputs]
    types = [None if value is None else TensorType.of(value) for value in values]
    op: Op = layer.op
    bound = op.bind(types, values)
    while bound is not None:
        op, types, values = bound.op, [types[i] for i in bound.inputs], [values[i] for i in bound.inputs]
        bound = op.bind(types, values)
    results = op.infer(types)
    in_force().check_tensors(results)
    return sum(type_.nbytes for type_ in results)
