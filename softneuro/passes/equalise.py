"""The channels between two convolutions are scaled so that the weights on both sides have equal ranges, channel by channel.

    Conv(w1, b1) ── relu ── Conv(w2)        Conv(w1/s, b1/s) ── relu ── Conv(w2·s)

One scale for all channels of a tensor (as in 8 bits) serves channels of equal ranges best; depthwise nets are far from that.
The function stays the same, as relu(x/s) = relu(x)/s for s > 0. Source: M. Nagel, M. van Baalen, T. Blankevoort and
M. Welling, "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.ops.conv import Conv
from softneuro.types import Array, DType

__all__ = ["equalise"]

_HOMOGENEOUS = ("", "relu", "leaky_relu")
"""Activations f with f(s·x) = s·f(x) for every s > 0; a clip is none."""
_MOST_ROUNDS, _SETTLED = 50, 1e-3
_LARGEST = 2.0**16


@dataclass(frozen=True)
class _Pair:
    """Two convolutions, the second the only reader of the first's result."""

    first: Layer
    second: Layer


def equalise(graph: Graph) -> Graph:
    """Equal up to rounding in float32, for every input. Not part of the pipeline: a step before calibration.

    Chains such as conv → depthwise → conv are taken pair by pair in turn until nothing changes any more. Pairs are left alone
    where weights or bias are no float32 constants, where something else reads the result between them or a residual is added
    to it, and where the activation does not commute with positive scales.
    """
    pairs = list(_pairs(graph))
    constants = dict(graph.constants)
    taken = {*graph.inputs, *graph.constants, *graph.producers()}
    names: dict[tuple[str, int], str] = {}
    for layer, position in dict.fromkeys(place for pair in pairs for place in _places(pair)):
        name = names[layer.name, position] = _fresh(f"{layer.inputs[position]}.equalised", taken)
        constants[name] = graph.constants[layer.inputs[position]].astype(np.float64)  # others may share the constants
    for _ in range(_MOST_ROUNDS):
        if max([_equalised(pair, names, constants) for pair in pairs], default=0.0) < _SETTLED:
            break
    for name in names.values():
        constants[name] = constants[name].astype(np.float32)
    return graph.with_layers((_renamed(layer, names) for layer in graph.layers), constants) if pairs else graph


def _pairs(graph: Graph) -> Iterator[_Pair]:
    readers: dict[str, list[Layer]] = {}
    for layer in graph.layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    for layer in graph.layers:
        if not _has_constants(graph, layer):
            continue
        epilogue, result = _conv(layer).epilogue, layer.outputs[0]
        if epilogue.residual or epilogue.activation not in _HOMOGENEOUS or result in graph.outputs:
            continue
        reading = readers.get(result, [])
        if len(reading) == 1 and _has_constants(graph, reading[0]) and reading[0].inputs[0] == result:
            yield _Pair(layer, reading[0])


def _places(pair: _Pair) -> Iterator[tuple[Layer, int]]:
    """The layers and positions of the constants that are scaled."""
    yield pair.first, 1
    if _conv(pair.first).bias:
        yield pair.first, 2
    yield pair.second, 1


def _has_constants(graph: Graph, layer: Layer) -> bool:
    if not isinstance(layer.op, Conv):
        return False
    found = [graph.constants.get(name) for name in layer.inputs[1 : 2 + layer.op.bias]]
    return all(a is not None and a.size and a.dtype == DType.F32.numpy and np.isfinite(a).all() for a in found)


def _conv(layer: Layer) -> Conv:
    assert isinstance(layer.op, Conv)
    return layer.op


def _fresh(base: str, taken: set[str]) -> str:
    name, number = base, 0
    while name in taken:
        number += 1
        name = f"{base}.{number}"
    taken.add(name)
    return name


def _equalised(pair: _Pair, names: dict[tuple[str, int], str], constants: dict[str, Array]) -> float:
    """Scale the channels between a pair, in place; the largest change, as the logarithm of a scale."""
    outer, inner = names[pair.first.name, 1], names[pair.second.name, 1]
    groups = _conv(pair.second).groups
    before = np.abs(constants[outer]).reshape(len(constants[outer]), -1).max(axis=1)
    after = np.abs(_by_channel(constants[inner], groups)).max(axis=1)
    usable = (before > 0) & (after > 0)
    scales = np.ones(len(before))
    scales[usable] = np.clip(np.sqrt(before[usable] / after[usable]), 1 / _LARGEST, _LARGEST)
    constants[outer] = constants[outer] / scales.reshape(-1, *(1,) * (constants[outer].ndim - 1))
    if _conv(pair.first).bias:
        constants[names[pair.first.name, 2]] = constants[names[pair.first.name, 2]] / scales
    constants[inner] = _scaled(constants[inner], groups, scales)
    return float(np.abs(np.log(scales)).max(initial=0.0))


def _by_channel(weights: Array, groups: int) -> Array:
    """Weights (k, c / groups, *kernel) as (c, all that reads the channel)."""
    split = weights.reshape(groups, len(weights) // groups, weights.shape[1], -1)
    return np.moveaxis(split, 2, 1).reshape(groups * weights.shape[1], -1)


def _scaled(weights: Array, groups: int, scales: Array) -> Array:
    """Weights (k, c / groups, *kernel) times a number for each input channel."""
    split = weights.reshape(groups, len(weights) // groups, weights.shape[1], -1)
    scaled: Array = split * scales.reshape(groups, 1, -1, 1)
    return scaled.reshape(weights.shape)


def _renamed(layer: Layer, names: dict[tuple[str, int], str]) -> Layer:
    inputs = tuple(names.get((layer.name, position), name) for position, name in enumerate(layer.inputs))
    return replace(layer, inputs=inputs) if inputs != layer.inputs else layer
