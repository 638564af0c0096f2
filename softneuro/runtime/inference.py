"""The two ends of an inference in a context: arrays bound before it runs, outputs gathered after."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softneuro.plan.program import BufferKind, Stored
from softneuro.runtime.context import Context
from softneuro.runtime.link import Linked
from softneuro.types import Array

__all__ = ["attach", "gather"]


def attach(context: Context, linked: Linked, arrays: Mapping[str, Array],
           given: Mapping[str, Array] | None = None) -> tuple[dict[str, Array], dict[int, Array]]:
    """Bind inputs and fresh (or given) outputs; returns the inputs kept by name and the outputs by buffer."""
    program = linked.program
    dynamic: dict[str, Array] = {}
    for name, place in program.inputs.items():
        if isinstance(place, Stored):
            context.bind(place.buffer, arrays[name])
        else:
            dynamic[name] = arrays[name]
    results: dict[int, Array] = {}
    for name, place in program.outputs.items():
        buffer = program.buffers[place.buffer] if isinstance(place, Stored) else None
        if isinstance(place, Stored) and buffer is not None and buffer.kind is BufferKind.OUTPUT and buffer.name == name:
            array = given[name] if given and name in given else np.empty(place.type.shape, place.type.dtype.numpy)
            results[place.buffer] = array
            context.bind(place.buffer, array)
    return dynamic, results


def gather(context: Context, linked: Linked, values: Mapping[str, Array], results: Mapping[int, Array]) -> dict[str, Array]:
    """All outputs by name; values and results: what `Context.run` and `attach` gave."""
    outputs: dict[str, Array] = {}
    buffers = linked.program.buffers
    for name, place in linked.program.outputs.items():
        if isinstance(place, str):
            outputs[name] = values[place]
        elif place.buffer in results and buffers[place.buffer].name == name:
            outputs[name] = results[place.buffer].reshape(place.type.shape)
        else:
            outputs[name] = context.view(place).copy()
    return outputs
