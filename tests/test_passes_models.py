"""All passes together: random graphs, and real models at small shapes, before and after in the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from graph_building import Builder, assert_same, count, free_shapes
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.graph import Graph
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.norm import BatchNorm
from softneuro.ops.padding import Pad
from softneuro.ops.pool import GlobalPool
from softneuro.ops.slicing import Concat
from softneuro.ops.view import Flatten, Identity
from softneuro.passes.pipeline import PIPELINE, optimise
from softneuro.specialise import specialise

CHANNELS = 4
STEPS = (
    "conv",
    "depthwise",
    "batch_norm",
    "relu",
    "silu",
    "hard_swish",
    "scale",
    "bias",
    "normalise",
    "add",
    "mul",
    "pad",
    "identity",
    "transposes",
    "squeeze_excite",
    "concat",
    "constant",
)


def _step(b: Builder, kind: str, x: str, other: str) -> str:
    """One more tensor of shape (n, 4, h, w), from one or two that there are."""
    c = CHANNELS
    match kind:
        case "conv":
            return b.conv(x, c, c, kernel=3, pad=1, bias=b.rng.random() < 0.5)
        case "depthwise":
            return b.conv(x, c, c, kernel=1, groups=c)
        case "batch_norm":
            return b.layer(BatchNorm(1e-5), x, b.weights(c), b.weights(c), b.weights(c), b.positive(c))
        case "relu":
            return b.pointwise("relu(x0)", x)
        case "silu":
            return b.pointwise("mul(x0,x1)", x, b.pointwise("sigmoid(x0)", x))
        case "hard_swish":
            clipped = b.pointwise(
                "min(x0,x1)", b.pointwise("relu(x0)", b.pointwise("add(x0,3.0)", x)), b.constant(np.float32(6))
            )
            return b.pointwise("div(x0,6.0)", b.pointwise("mul(x0,x1)", x, clipped))
        case "scale":
            return b.pointwise("mul(x0,x1)", x, b.weights(1, c, 1, 1))
        case "bias":
            return b.pointwise("add(x1,x0)", x, b.weights(c, 1, 1))
        case "normalise":
            return b.pointwise("div(x0,x1)", b.pointwise("sub(x0,0.5)", x), b.positive(c, 1, 1))
        case "add":
            return b.pointwise("add(x0,x1)", x, other)
        case "mul":
            return b.pointwise("tanh(x0);mul(t0,x1)", x, other)
        case "pad":
            padded = b.layer(Pad("constant", (0, 0, 1, 1, 0, 0, 1, 1)), x)
            return b.conv(padded, c, c, kernel=3)
        case "identity":
            return b.layer(Identity(), x)
        case "transposes":
            return b.layer(Transpose((0, 3, 1, 2)), b.layer(Transpose((0, 2, 3, 1)), x))
        case "squeeze_excite":
            gate = b.pointwise("hard_sigmoid(x0,0.2,0.5)", b.conv(b.layer(GlobalPool("average"), x), c, c, bias=True))
            return b.pointwise("mul(x0,x1)", x, gate)
        case "concat":
            return b.conv(b.layer(Concat(1), x, other), c, 2 * c, bias=True)
        case _:
            return b.pointwise("add(x0,x1)", x, b.pointwise("exp(x0)", b.weights(c, 1, 1)))


def random_graph(steps: Sequence[tuple[str, int, int]], outputs: Sequence[int], *, fixed: bool, seed: int) -> Graph:
    """Every step reads one or two tensors of those made so far."""
    b = Builder(seed)
    tensors = [b.input(2, CHANNELS, 3, 5) if fixed else b.input("n", CHANNELS, "h", "w")]
    for kind, first, second in steps:
        tensors.append(_step(b, kind, tensors[-1 - first % len(tensors)], tensors[-1 - second % len(tensors)]))
    made = {tensors[-1 - i % (len(tensors) - 1)] for i in outputs}
    head = b.layer(MatMul(), b.layer(Flatten(1), b.layer(GlobalPool("average"), tensors[-1])), b.weights(CHANNELS, 3))
    return b.graph(b.pointwise("add(x0,x1)", head, b.weights(3)), *sorted(made))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.sampled_from([0, 0, 0, 1, 2]), st.integers(0, 5)), min_size=1, max_size=10
    ),
    outputs=st.lists(st.integers(0, 8), max_size=2),
    fixed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_random_graphs_compute_the_same(
    steps: list[tuple[str, int, int]], outputs: list[int], fixed: bool, seed: int
) -> None:
    before = random_graph(steps, outputs, fixed=fixed, seed=seed)
    hints = specialise(before, {"input0": (2, CHANNELS, 3, 5) if fixed else (1, CHANNELS, 4, 1)}).types
    after = optimise(before, hints)
    assert len(after.layers) <= len(before.layers)
    assert_same(before, after, free_shapes(before, 3), tolerance=1e-4)
    assert_same(before, after, free_shapes(before, 1), tolerance=1e-4)


def test_optimising_twice_changes_nothing_more() -> None:
    steps = [(kind, 0, 3) for kind in STEPS]
    once = optimise(random_graph(steps, [1], fixed=False, seed=0))
    assert [layer.op for layer in optimise(once).layers] == [layer.op for layer in once.layers]


def test_product_of_another_batch_does_not_take_the_residual_that_broadcasts_it() -> None:
    """At the tuned batch of 1 the operands have one shape; at any other only the second has the result's."""
    b = Builder()
    position = b.layer(MatMul(), b.input(1, 4), b.weights(4, 6))
    before = b.graph(b.pointwise("add(x0,x1)", position, b.pointwise("relu(x0)", b.input("n", 6))))
    after = optimise(before, specialise(before, {"input0": (1, 4), "input1": (1, 6)}).types)
    assert count(after) == {"matmul": 1, "pointwise": 1}
    assert_same(before, after)


def test_every_pass_has_a_drawing() -> None:
    import sys

    for step in PIPELINE[1:]:
        assert "→" in (sys.modules[step.__module__].__doc__ or ""), step.__name__


def imported(name: str) -> Graph:
    from softneuro.importer.model import import_model
    from tools.fetch_models import model_path

    try:
        return import_model(model_path(name))
    except FileNotFoundError as error:
        pytest.skip(str(error))


CASES: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, int]]] = {
    "ppocr-cls": ({"x": (1, 3, 48, 48)}, {"conv": 53, "global_pool": 10, "pointwise": 11, "batch_norm": 0}),
    "magika": ({"bytes": (2, 2048)}, {"conv": 1, "matmul": 2}),
    "silero-vad-silero_vad_openvino_16k": ({"input": (1, 576), "state": (2, 1, 128)}, {"conv": 6}),
    "minilm-l3": ({"input_ids": (2, 5), "attention_mask": (2, 5)}, {"matmul": 24, "layer_norm": 7}),
}
SLOW: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, int]]] = {
    "ppocr-det": ({"x": (1, 3, 32, 64)}, {"conv": 62, "conv_transpose": 2, "batch_norm": 0}),
    "ppocr-rec": ({"x": (1, 3, 48, 32)}, {"conv": 38, "layer_norm": 5, "batch_norm": 0}),
    "open-nsfw": ({"input:0": (1, 224, 224, 3)}, {"conv": 53, "pool": 2, "matmul": 1, "pointwise": 0}),
    "mobilenet-v3-large": (
        {"input": (1, 3, 224, 224)},
        {"conv": 62, "pointwise": 8, "global_pool": 9, "batch_norm": 0},
    ),
    "mobilenet-v2": ({"input": (1, 3, 224, 224)}, {"conv": 52, "matmul": 1, "pointwise": 0, "batch_norm": 0}),
    "resnet50": (
        {"input": (1, 3, 224, 224)},
        {"conv": 53, "pool": 1, "global_pool": 1, "view": 1, "matmul": 1, "pointwise": 0},
    ),
}


def _check_model(name: str, shapes: dict[str, tuple[int, ...]], wanted: dict[str, int]) -> None:
    before = imported(name)
    after = optimise(before, specialise(before, shapes).types)
    found = count(after)
    assert {kind: found[kind] for kind in wanted} == wanted
    assert_same(before, after, shapes, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_real_models_compute_the_same(name: str) -> None:
    _check_model(name, *CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_large_real_models_compute_the_same(name: str) -> None:
    _check_model(name, *SLOW[name])
