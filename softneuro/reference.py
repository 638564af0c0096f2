"""The oracle: a graph run layer by layer in numpy. Slow, plain, and the definition of what is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from softneuro.errors import DynamicShape, InputError, SoftneuroError
from softneuro.graph import Graph, Layer
from softneuro.limits import in_force
from softneuro.ops.base import Op, Values
from softneuro.types import Array, DType, TensorType

__all__ = ["computed", "run", "run_layer"]


def _type_of(value: Any) -> TensorType:
    """The value's type; sequences have none that tells more than `DType.OTHER`."""
    return TensorType.of(value) if isinstance(value, np.ndarray) else TensorType(DType.OTHER, ())


def computed(op: Op, inputs: Values) -> tuple[Array, ...]:
    """What the op's reference makes of its inputs."""
    return op.reference(inputs)


def run_layer(layer: Layer, values: Mapping[str, Array],
              compute: Callable[[Op, Values], tuple[Array, ...]] = computed) -> tuple[Array, ...]:
    """The outputs of one layer. Raises the op's error with the layer's name in front.

    compute: gives what an op makes of its inputs; by default the op's reference.
    """
    inputs: list[Array | None] = [values[name] if name else None for name in layer.inputs]
    op = layer.op
    try:
        bound = op.bind([None if value is None else _type_of(value) for value in inputs], inputs)
        if bound is not None:
            op, inputs = bound.op, [inputs[i] for i in bound.inputs]
        if op.may_grow():
            _check_outputs(op, inputs)
        with np.errstate(all="ignore"):  # infinities and NaN are results like others
            results = compute(op, inputs)
        if any(layer.outputs[len(results) :]):
            raise InputError(f"found {len(results)} outputs, needed {len(layer.outputs)}")
        return results
    except SoftneuroError as error:
        raise type(error)(f"layer {layer.name!r} ({layer.op.name}): {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # numpy's, for data that the op cannot take
        text = " ".join(str(error).split())
        raise InputError(f"layer {layer.name!r} ({layer.op.name}): cannot be computed on these inputs: {text}") from error


def _check_outputs(op: Op, inputs: list[Array | None]) -> None:
    """Raise ResourceLimitError when a layer's outputs would be larger than is allowed."""
    try:
        types = op.infer([None if value is None else _type_of(value) for value in inputs])
    except (DynamicShape, NotImplementedError):
        return
    in_force().check_tensors(types)


def run(graph: Graph, feeds: Mapping[str, Array], *, keep: bool = False) -> dict[str, Array]:
    """The graph's outputs by name (with ``keep``, every tensor's value)."""
    values: dict[str, Array] = {**graph.constants, **feeds}
    for layer in graph.layers:
        for name, value in zip(layer.outputs, run_layer(layer, values), strict=False):
            if name:
                values[name] = value
    return values if keep else {name: values[name] for name in graph.outputs}
