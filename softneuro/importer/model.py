"""`import_model`: an ONNX model to a Graph."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from softneuro.errors import InputError, ModelError
from softneuro.graph import Graph, GraphInput
from softneuro.importer.graph import ModelScope, RefusedNode, declared_inputs, import_graph
from softneuro.importer.known_types import known_types
from softneuro.importer.load import Loaded, load
from softneuro.importer.weights import Weights

__all__ = ["import_loaded", "import_model"]


def import_model(model: str | Path | bytes | onnx.ModelProto, *,
                 shapes: Mapping[str, Sequence[int | None]] | None = None) -> Graph:
    """The model as a Graph of our layers, constants read, local functions inlined, nodes sorted.

    model: a path, the bytes of a file, or a ModelProto. External data must lie in the model's folder.
    shapes: sizes of inputs (by name) to use in place of the declared ones, None for a free one; a size given for a symbol
    holds for every other input with that symbol.

    Raises ModelError when the model is damaged or inconsistent, its subclass UnsupportedOp when it uses an
    operator that nothing implements, InputError when ``shapes`` does not fit, ResourceLimitError when a tensor
    is too large.
    """
    loaded = load(model)
    graph = import_loaded(loaded, Weights(loaded.path), shapes or {})
    graph.verify()
    return graph


def import_loaded(loaded: Loaded, weights: Weights, shapes: Mapping[str, Sequence[int | None]],
                  refused: list[RefusedNode] | None = None) -> Graph:
    """The graph of a model that is loaded, not verified.

    refused: where nodes that cannot be converted are noted; without it, the error of the first is raised.
    """
    try:
        inputs = _with_shapes(declared_inputs(loaded.model.graph), shapes)
        types = functools.cache(lambda: known_types(loaded.model, inputs))
        return import_graph(loaded.model.graph, ModelScope(loaded.opsets, weights, types, refused), inputs)
    except UnicodeDecodeError as error:
        raise ModelError(f"the model: found a name with the bytes {error.object[:40]!r}, needed UTF-8: "
                         "export the model again") from error


def _with_shapes(inputs: Mapping[str, GraphInput], shapes: Mapping[str, Sequence[int | None]]) -> dict[str, GraphInput]:
    """The inputs with the given sizes."""
    found = dict(inputs)
    symbols: dict[str, int | None] = {}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise InputError(f"shape for {name!r}: the model has no such input, needed one of {', '.join(inputs) or 'none'}")
        declared, wanted = inputs[name].shape, tuple(None if size is None else int(size) for size in sizes)
        if (declared is not None and len(declared) != len(wanted)) or any(size is not None and size < 0 for size in wanted):
            raise InputError(f"shape for {name!r}: found {wanted}, needed sizes of at least 0 like {declared}")
        for symbol, size in zip(declared or (), wanted, strict=False):
            if isinstance(symbol, str) and symbols.setdefault(symbol, size) != size:
                raise InputError(f"shape for {name!r}: {symbol} is {size} here and {symbols[symbol]} elsewhere, needed one size")
        found[name] = replace(inputs[name], shape=wanted)
    for name, declared_input in inputs.items():
        if name not in shapes and declared_input.shape is not None:
            shape = tuple(symbols.get(d, d) if isinstance(d, str) else d for d in declared_input.shape)
            found[name] = replace(declared_input, shape=shape)
    return found
