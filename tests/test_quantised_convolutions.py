"""QLinearConv as a float32 convolution: every routine that tuning could choose is within a step of exact integer sums."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from oracle import execute, runnable_targets
from test_patches import exact_sums

from softneuro.importer.model import import_model
from softneuro.ops.conv import Conv
from softneuro.passes.pipeline import optimise
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates, narrow_dtypes_of
from softneuro.types import Array, TensorType
from tests.onnx_build import one_node

X_SCALE, W_SCALE, X_ZERO, Y_ZERO = np.float32(0.0117), np.float32(0.0073), 3, 128
CHANNELS, FILTERS = 512, 8


def weights(name: str) -> Array:
    rng = np.random.default_rng(0)
    shape = (FILTERS, CHANNELS, 3, 3)
    if name == "random":
        return rng.integers(-127, 128, shape).astype(np.int8)
    values = np.full(shape, 127, np.int8)
    values[1::2] = rng.choice(np.array([-127, 127], np.int8), values[1::2].shape)
    return values


@pytest.mark.parametrize("name", ["random", "extreme"])
def test_every_routine_is_within_a_step(name: str) -> None:
    rng = np.random.default_rng(1)
    shape = (1, CHANNELS, 7, 7)
    x = rng.integers(0, 256, shape).astype(np.uint8) if name == "random" else np.full(shape, 255, np.uint8)
    w = weights(name)
    sums = exact_sums(x, w, X_ZERO, 0, 1)
    y_scale = np.float32(np.abs(sums).max() * float(X_SCALE) * float(W_SCALE) / 127)
    given = [X_SCALE, np.uint8(X_ZERO), w, W_SCALE, np.int8(0), y_scale, np.uint8(Y_ZERO)]
    constants = {f"c{position}": np.asarray(value) for position, value in enumerate(given)}
    proto: onnx.ModelProto = one_node("QLinearConv", {"x": x}, constants=constants, pads=[1] * 4)
    steps = sums * (float(X_SCALE) * float(W_SCALE) / float(y_scale))
    exact = np.clip(np.rint(steps) + Y_ZERO, 0, 255)
    graph = optimise(import_model(proto))
    known: dict[str, Array] = {**graph.constants, "x": x}
    for layer in graph.layers:
        values = [known[i] for i in layer.inputs]
        if isinstance(layer.op, Conv):
            conv, read = layer, values
        known |= zip(layer.outputs, layer.op.reference(values), strict=True)
    rest = graph.layers[graph.layers.index(conv) + 1 :]
    problem = Problem.of(conv.op, tuple(map(TensorType.of, read)), tuple(i in graph.constants for i in conv.inputs))
    for target in runnable_targets().values():
        own = [c for c in candidates(problem, target) if not narrow_dtypes_of(problem, c.routine, c.signature)]
        first = {one.routine.name: one for one in reversed(own)}
        assert {"conv.igemm.f32.chl", "conv.winograd43.f32.chl"} <= first.keys()
        for one in first.values():
            (y,) = execute(one.routine, problem, one.signature, one.schedule, target, read)
            after = {**known, conv.outputs[0]: y}
            for layer in rest:
                after |= zip(layer.outputs, layer.op.reference([after[i] for i in layer.inputs]), strict=True)
            gaps = np.abs(after[graph.outputs[0]].astype(np.float64) - exact)
            assert gaps.max() <= 1 and np.count_nonzero(gaps) <= gaps.size // 100, one.routine.name
