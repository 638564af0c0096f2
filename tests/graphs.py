"""Small graphs and plans that several tests use."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import Epilogue
from softneuro.plan.plan import Plan, Provenance
from softneuro.types import Array, DType

__all__ = ["conv_chain", "feeds_for", "plan_of"]


def conv_chain(length: int = 3, channels: int = 8, *, height: int | str | None = 6, seed: int = 0) -> Graph:
    """``length`` 3x3 convolutions with relu; the height may be a symbol."""
    rng = np.random.default_rng(seed)
    layers, constants = [], {}
    for i in range(length):
        constants[f"w{i}"] = (rng.standard_normal((channels, channels, 3, 3)) / 9).astype(np.float32)
        op = Conv((1, 1), (1, 1, 1, 1), (1, 1), epilogue=Epilogue("relu"))
        layers.append(Layer(f"conv{i}", op, (f"t{i}", f"w{i}"), (f"t{i + 1}",)))
    inputs = {"t0": GraphInput(DType.F32, (1, channels, height, 5))}
    return Graph(inputs, (f"t{length}",), tuple(layers), constants)


def plan_of(graph: Graph, threads: int = 1, height: int = 6) -> Plan:
    """A plan with default choices."""
    shapes = {n: tuple(d if isinstance(d, int) else height for d in i.shape or ()) for n, i in graph.inputs.items()}
    return Plan(graph, {}, Provenance(threads=threads, shapes=shapes))


def feeds_for(graph: Graph, height: int = 6, seed: int = 1) -> dict[str, Array]:
    """Normal data for every input."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal([d if isinstance(d, int) else height for d in declared.shape or ()]).astype(np.float32)
        for name, declared in graph.inputs.items()
    }
