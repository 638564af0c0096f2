"""Small graphs for tests of passes, and the check that a rewritten graph computes what the original did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softneuro import reference
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.pointwise import Pointwise
from softneuro.specialise import specialise
from softneuro.types import Array, DType


class Builder:
    """Collects layers; tensors are names, constants get seeded normal data unless given."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs: dict[str, GraphInput] = {}
        self.constants: dict[str, Array] = {}
        self.layers: list[Layer] = []

    def input(self, *shape: int | str | None, dtype: DType = DType.F32) -> str:
        name = f"input{len(self.inputs)}"
        self.inputs[name] = GraphInput(dtype, shape)
        return name

    def constant(self, value: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape).astype(np.float32))

    def positive(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 2.0, shape).astype(np.float32))

    def layer(self, op: Op, *inputs: str, outputs: int = 1) -> str:
        """The first output's name; others end in .1, .2 …"""
        number = len(self.layers)
        names = (f"tensor{number}", *(f"tensor{number}.{i}" for i in range(1, outputs)))
        self.layers.append(Layer(f"layer{number}", op, inputs, names))
        return names[0]

    def pointwise(self, program: str, *inputs: str) -> str:
        return self.layer(Pointwise(program), *inputs)

    def conv(self, x: str, filters: int, channels: int, *, kernel: int = 1, pad: int = 0, groups: int = 1,
             bias: bool = False) -> str:
        """A two-dimensional convolution; ``channels`` of the input."""
        inputs = [x, self.weights(filters, channels // groups, kernel, kernel)]
        if bias:
            inputs.append(self.weights(filters))
        return self.layer(Conv((1, 1), (pad,) * 4, (1, 1), groups, bias), *inputs)

    def graph(self, *outputs: str) -> Graph:
        built = Graph(self.inputs, outputs, tuple(self.layers), self.constants)
        built.verify()
        return built


def hinted(graph: Graph, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The graph with the types at these shapes (default: 2 for every free dimension) as hints."""
    return replace(graph, types=specialise(graph, shapes or free_shapes(graph, 2)).types)


def free_shapes(graph: Graph, size: int) -> dict[str, tuple[int, ...]]:
    """Input shapes with one size for every free dimension."""
    return {name: tuple(d if isinstance(d, int) else size for d in i.shape or ()) for name, i in graph.inputs.items()}


def random_feeds(graph: Graph, shapes: Mapping[str, Sequence[int]], seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for name, declared in graph.inputs.items():
        is_float = declared.dtype.is_float
        data = rng.standard_normal(shapes[name]) if is_float else rng.integers(0, 2, shapes[name])
        feeds[name] = np.asarray(data).astype(declared.dtype.numpy)
    return feeds


def assert_same(before: Graph, after: Graph, shapes: Mapping[str, Sequence[int]] | None = None, *,
                tolerance: float = 1e-5) -> None:
    """Both graphs give the same outputs, by name, up to ``tolerance`` times the largest number."""
    after.verify()
    assert after.outputs == before.outputs
    feeds = random_feeds(before, shapes or free_shapes(before, 3))
    wanted, found = reference.run(before, feeds), reference.run(after, feeds)
    for name in before.outputs:
        assert found[name].shape == wanted[name].shape, name
        assert found[name].dtype == wanted[name].dtype, name
        scale = float(np.max(np.abs(wanted[name].astype(np.float64)), initial=1e-30)) if wanted[name].size else 1.0
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=tolerance * scale, err_msg=name)


def kinds(graph: Graph) -> list[str]:
    """The op names of the layers in order; pointwise layers are written as their programs."""
    return [layer.op.program if isinstance(layer.op, Pointwise) else layer.op.name for layer in graph.layers]


def count(graph: Graph) -> Counter[str]:
    """How many layers of each op there are."""
    return Counter(layer.op.name for layer in graph.layers)
