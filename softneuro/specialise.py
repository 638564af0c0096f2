"""A graph for concrete input shapes: types everywhere, shape arithmetic computed away, dynamic ops made static."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from softneuro.errors import DynamicShape, InputError, SoftneuroError
from softneuro.graph import Graph, Layer, live_layers
from softneuro.inline import inlined
from softneuro.limits import in_force
from softneuro.ops.base import Op
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["check_shapes", "default_shapes", "specialise"]

_SMALL = 4096  # elements: above, a value known early is still computed at run time (it is data, not shape arithmetic)


def check_shapes(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    """The shapes of all inputs, checked against the declared dimensions and against each other.

    Raises InputError for a missing or unknown input, a wrong rank, size, or two sizes for one symbol.
    """
    unknown = sorted(set(shapes) - set(graph.inputs))
    if unknown:
        raise InputError(f"input {unknown[0]!r} is not one of the model's: needed {', '.join(map(repr, graph.inputs))}")
    symbols: dict[str, tuple[int, str]] = {}
    result: dict[str, Shape] = {}
    for name, declared in graph.inputs.items():
        if name not in shapes:
            raise InputError(f"input {name!r} is missing: needed {', '.join(map(repr, graph.inputs))}")
        shape = tuple(int(size) for size in shapes[name])
        if declared.shape is not None:
            wanted = "x".join("?" if d is None else str(d) for d in declared.shape) or "a scalar"
            if len(shape) != len(declared.shape):
                raise InputError(f"input {name!r}: found shape {shape} of rank {len(shape)}, needed {wanted}")
            for size, dim in zip(shape, declared.shape, strict=True):
                if isinstance(dim, int) and dim != size:
                    raise InputError(f"input {name!r}: found shape {shape}, needed {wanted}")
                if isinstance(dim, str) and symbols.setdefault(dim, (size, name))[0] != size:
                    raise InputError(f"input {name!r}: found {dim} = {size}, but input {symbols[dim][1]!r} has {symbols[dim][0]}")
        if any(size < 0 for size in shape):
            raise InputError(f"input {name!r}: found shape {shape}, needed sizes of 0 or more")
        result[name] = shape
    return result


def default_shapes(graph: Graph, given: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    """The shapes given, and for the other inputs the declared ones: a free dimension is what its symbol is in a
    given shape, else 1."""
    symbols: dict[str, int] = {}
    for name, shape in given.items():
        declared = graph.inputs[name].shape if name in graph.inputs else None
        symbols |= {dim: int(size) for dim, size in zip(declared or (), shape, strict=False) if isinstance(dim, str)}
    free = {
        name: tuple(d if isinstance(d, int) else symbols.get(d, 1) if d else 1 for d in declared.shape or ())
        for name, declared in graph.inputs.items()
    }
    return free | {name: tuple(map(int, shape)) for name, shape in given.items()}


def specialise(graph: Graph, shapes: Mapping[str, Sequence[int]], known: Mapping[str, Array] | None = None) -> Graph:
    """The graph for these input shapes, and for these values of inputs where they are known.

    Every op is bound to its static form, the types of all tensors whose shape does not depend on the data of the
    run are in ``types``, and layers whose (small) results are known now become constants. Raises InputError when
    the shapes do not fit the model.
    """
    sizes = check_shapes(graph, shapes)
    types: dict[str, TensorType] = {name: _type_of(array) for name, array in graph.constants.items()}
    types |= {name: TensorType(graph.inputs[name].dtype, shape) for name, shape in sizes.items()}
    in_force().check_tensors(types.values())
    values: dict[str, Array] = {**graph.constants, **(known or {})}
    layers: list[Layer] = []
    waiting = deque(graph.layers)
    while waiting:
        layer = waiting.popleft()
        try:
            kept = _specialise_layer(layer, types, values)
        except SoftneuroError as error:
            raise type(error)(f"layer {layer.name!r} ({layer.op.name}): {error}") from error
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"layer {layer.name!r} ({layer.op.name}): its parameters do not fit its inputs ({text}), "
                             "needed those of a valid model") from error
        body = kept.op.body_run_once() if kept is not None else None
        if kept is not None and body is not None:
            need_outputs(kept, len(body.outputs))
            inner, constants = inlined(kept, body, kept.op.body_label())
            values |= constants
            types |= {name: _type_of(array) for name, array in constants.items()}
            waiting.extendleft(reversed(inner))
        elif kept is not None:
            layers.append(kept)
    inputs = {name: replace(graph.inputs[name], shape=shape) for name, shape in sizes.items()}
    for name in known or ():
        values.pop(name)  # what still reads the input reads what the run is given, which is the same
    whole = replace(graph, inputs=inputs, layers=tuple(layers), constants=values, types=types)
    return whole.with_layers(live_layers(whole))


_dtype_of = functools.lru_cache(maxsize=64)(DType.of)


def _type_of(array: Array) -> TensorType:
    return TensorType(_dtype_of(array.dtype), array.shape)


def need_outputs(layer: Layer, made: int) -> None:
    """Raise InputError when a layer names more outputs than its op makes."""
    if any(layer.outputs[made:]):
        raise InputError(f"found {made} outputs, needed {len(layer.outputs)}")


def _specialise_layer(layer: Layer, types: dict[str, TensorType], values: dict[str, Array]) -> Layer | None:
    """The layer in static form, its results entered in ``types``; None when they were entered in ``values``."""
    known = [types.get(name) if name else None for name in layer.inputs]
    data = [values.get(name) if name else None for name in layer.inputs]
    if any(t is None for t, name in zip(known, layer.inputs, strict=True) if name):
        return layer  # downstream of a shape that only the run will tell
    op: Op = layer.op
    names = layer.inputs
    try:
        bound = op.bind(known, data)
        while bound is not None:
            names = tuple(names[i] if i < len(names) else "" for i in bound.inputs)
            op, known, data = bound.op, [known[i] for i in bound.inputs], [data[i] for i in bound.inputs]
            bound = op.bind(known, data)
        if op.body_run_once() is not None:
            return replace(layer, op=op, inputs=names)  # its layers are looked at one by one
        outputs = op.infer(known)
    except DynamicShape:
        return layer
    in_force().check_tensors(outputs)
    need_outputs(layer, len(outputs))
    for name, type_ in zip(layer.outputs, outputs, strict=False):
        if name:
            types[name] = type_
    ready = op.is_repeatable() and all(value is not None for value, name in zip(data, names, strict=True) if name)
    if ready and all(t.size <= _SMALL for t in outputs):
        results = op.reference(data)
        for name, value in zip(layer.outputs, results, strict=False):
            if name:
                values[name] = np.asarray(value)
        return None
    return replace(layer, op=op, inputs=names)
