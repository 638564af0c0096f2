"""Equal ranges of channels on both sides of a tensor, and the same outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import softneuro
from softneuro.demo.data import INPUT, load_pictures, model_path
from softneuro.graph import Graph
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import Epilogue
from softneuro.passes.equalise import equalise
from softneuro.types import Array
from tests.graph_building import Builder, assert_same


def conv(b: Builder, x: str, filters: int, channels: int, *, groups: int = 1, epilogue: Epilogue | None = None, kernel: int = 1,
         bias: bool = True, residual: str = "", spread: float = 0.0) -> str:
    """spread: the ranges of the filters are 2**-spread to 2**spread."""
    weights = b.rng.standard_normal((filters, channels // groups, kernel, kernel))
    weights *= (2.0 ** b.rng.uniform(-spread, spread, filters))[:, None, None, None]
    inputs = [x, b.constant(weights.astype(np.float32))]
    if bias:
        inputs.append(b.weights(filters))
    if residual:
        inputs.append(residual)
    pads = (kernel // 2,) * 4
    return b.layer(Conv((1, 1), pads, (1, 1), groups, bias, epilogue or Epilogue("relu")), *inputs)


def chain(activation: str = "relu", **options: Any) -> Graph:
    """conv → depthwise → conv."""
    b = Builder()
    parameters = {"clip": (0.0, 6.0), "leaky_relu": (0.1,)}.get(activation, ())
    epilogue = Epilogue(activation, parameters)
    x = conv(b, b.input(1, 3, 6, 6), 8, 3, epilogue=epilogue, spread=6, **options)
    x = conv(b, x, 8, 8, groups=8, kernel=3, epilogue=epilogue, spread=6, **options)
    return b.graph(conv(b, x, 5, 8, epilogue=Epilogue("clip", (0.0, 6.0)), **options))


def ranges(graph: Graph, index: int) -> tuple[Array, Array]:
    """Of each channel between layer ``index`` and the next, which has as many groups as channels or one."""
    first, second = (graph.constants[layer.inputs[1]] for layer in graph.layers[index : index + 2])
    outer = np.abs(first).max(axis=(1, 2, 3))
    inner = np.abs(second).max(axis=(1, 2, 3) if second.shape[1] == 1 else (0, 2, 3))
    return outer, inner


@pytest.mark.parametrize("activation", ["", "relu", "leaky_relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_stay_and_ranges_match(activation: str, bias: bool) -> None:
    graph = chain(activation, bias=bias)
    after = equalise(graph)
    assert_same(graph, after, tolerance=1e-5)
    for index in (0, 1):
        outer, inner = ranges(after, index)
        np.testing.assert_allclose(outer, inner, rtol=0.01)
        before = ranges(graph, index)
        assert np.ptp(np.log(before[0] / before[1])) > 1
    assert all(constant.dtype == np.float32 for constant in after.constants.values())


def test_groups() -> None:
    b = Builder()
    x = conv(b, b.input(1, 4, 5, 5), 6, 4, groups=2, spread=5)
    graph = b.graph(conv(b, x, 9, 6, groups=3, kernel=3))
    after = equalise(graph)
    assert after is not graph and len(set(after.constants) & set(graph.constants)) == 1  # the last bias
    assert_same(graph, after)


def test_channels_without_weights_stay() -> None:
    graph = chain()
    graph.constants[graph.layers[0].inputs[1]][2] = 0
    graph.constants[graph.layers[1].inputs[1]][3] = 0
    after = equalise(graph)
    assert_same(graph, after)
    assert all(np.isfinite(constant).all() for constant in after.constants.values())


def test_shared_weights_part() -> None:
    """Two layers with the same constants are scaled differently."""
    b = Builder()
    first = conv(b, b.input(1, 4, 5, 5), 4, 4, spread=4)
    weights = b.layers[0].inputs
    second = b.layer(b.layers[0].op, first, *weights[1:])
    graph = b.graph(conv(b, second, 3, 4))
    assert_same(graph, equalise(graph))


def _read_twice(b: Builder, x: str) -> tuple[str, ...]:
    return conv(b, x, 4, 8), conv(b, x, 4, 8)


def _given_out(b: Builder, x: str) -> tuple[str, ...]:
    return x, conv(b, x, 4, 8)


def _as_residual(b: Builder, x: str) -> tuple[str, ...]:
    return (conv(b, b.input(1, 3, 6, 6), 8, 3, epilogue=Epilogue("relu", residual="before"), residual=x),)


def _as_weights(b: Builder, x: str) -> tuple[str, ...]:
    return (b.layer(Conv((1, 1), (0,) * 4, (1, 1)), b.input(1, 8, 6, 6), x),)


@pytest.mark.parametrize("rest", [_read_twice, _given_out, _as_residual, _as_weights])
def test_tensors_that_others_read_stay(rest: Any) -> None:
    b = Builder()
    graph = b.graph(*rest(b, conv(b, b.input(1, 3, 6, 6), 8, 3, spread=4)))
    assert equalise(graph) is graph


@pytest.mark.parametrize("activation", ["clip", "sigmoid", "silu"])
def test_activations_that_do_not_commute_with_scales_stay(activation: str) -> None:
    graph = chain(activation)
    assert equalise(graph) is graph


def test_weights_that_are_computed_stay() -> None:
    b = Builder()
    x = conv(b, b.input(1, 3, 6, 6), 8, 3, spread=4)
    graph = b.graph(b.layer(Conv((1, 1), (0,) * 4, (1, 1)), x, b.input(4, 8, 1, 1)))
    assert equalise(graph) is graph


def test_activations_that_a_residual_is_added_to_stay() -> None:
    b = Builder()
    x = b.input(1, 3, 6, 6)
    added = conv(b, x, 3, 3, epilogue=Epilogue("relu", residual="before"), residual=x)
    graph = b.graph(conv(b, added, 4, 3))
    assert equalise(graph) is graph


def test_equal_channels_are_a_fixed_point() -> None:
    once = equalise(chain())
    twice = equalise(once)
    for a, b in zip(once.layers, twice.layers, strict=True):
        np.testing.assert_allclose(once.constants[a.inputs[1]], twice.constants[b.inputs[1]], rtol=0.01)


def test_a_trained_depthwise_net() -> None:
    plan = softneuro.tune(model_path(), threads=1, time_limit=0)
    after = equalise(plan.graph)
    assert after is not plan.graph
    pictures = {INPUT: load_pictures()[0][:3]}
    wanted, found = softneuro.Session(plan).run(pictures), softneuro.Session(replace(plan, graph=after)).run(pictures)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5 * np.abs(array).max())
