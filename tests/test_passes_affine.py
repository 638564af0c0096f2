"""Scales and shifts that move into weights, and what keeps them out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from graph_building import Builder, assert_same, hinted, kinds

from softneuro.graph import Graph
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.matmul import MatMul
from softneuro.ops.norm import BatchNorm, LayerNorm
from softneuro.ops.same_padding import SameConv
from softneuro.passes.affine_chain import affine_chain
from softneuro.passes.affine_into_conv import affine_into_conv
from softneuro.passes.affine_into_producer import affine_into_producer

Make = Callable[[Builder], str]


def batch_norm(b: Builder, x: str, channels: int) -> str:
    return b.layer(
        BatchNorm(1e-3), x, b.weights(channels), b.weights(channels), b.weights(channels), b.positive(channels)
    )


def image(b: Builder, channels: int = 4) -> str:
    return b.input(None, channels, 5, "w")


def transposed(b: Builder, groups: int) -> str:
    op = ConvTranspose((2, 2), (1, 0, 1, 1), (0, 0), (1, 1), groups, True)
    return b.layer(op, image(b), b.weights(4, 6 // groups, 3, 2), b.weights(6))


INTO_PRODUCER: dict[str, tuple[Make, str]] = {
    "batch_norm": (lambda b: batch_norm(b, b.conv(image(b), 6, 4, kernel=3, pad=1), 6), "conv"),
    "batch_norm_with_bias": (lambda b: batch_norm(b, b.conv(image(b), 6, 4, bias=True), 6), "conv"),
    "grouped": (lambda b: batch_norm(b, b.conv(image(b), 6, 4, kernel=3, groups=2, bias=True), 6), "conv"),
    "depthwise": (lambda b: batch_norm(b, b.conv(image(b), 4, 4, kernel=3, pad=1, groups=4), 4), "conv"),
    "same_padded": (
        lambda b: batch_norm(b, b.layer(SameConv((2, 2), (1, 1)), image(b), b.weights(6, 4, 3, 3)), 6),
        "same_conv",
    ),
    "conv_transpose": (lambda b: batch_norm(b, transposed(b, 1), 6), "conv_transpose"),
    "grouped_conv_transpose": (lambda b: batch_norm(b, transposed(b, 2), 6), "conv_transpose"),
    "matmul_of_matrices": (lambda b: batch_norm(b, b.layer(MatMul(), b.input("n", 4), b.weights(4, 6)), 6), "matmul"),
    "spelled": (
        lambda b: b.pointwise(
            "mul(x1,x0);sub(t0,x2);div(t1,x3);neg(t2)",
            b.conv(image(b), 6, 4),
            b.weights(1, 6, 1, 1),
            b.weights(6, 1, 1),
            b.positive(1),
        ),
        "conv",
    ),
    "several_layers": (
        lambda b: b.pointwise(
            "add(x0,x1)",
            b.pointwise("mul(x0,x1)", batch_norm(b, b.conv(image(b), 6, 4), 6), b.weights(6, 1, 1)),
            b.weights(6, 1, 1),
        ),
        "conv",
    ),
    "affine_of_itself": (lambda b: b.pointwise("mul(x0,2.0);sub(t0,x0);add(t1,1.0)", b.conv(image(b), 6, 4)), "conv"),
    "bias_of_matmul": (
        lambda b: b.pointwise("add(x1,x0)", b.layer(MatMul(), b.input("n", 3, 4), b.weights(4, 6)), b.weights(6)),
        "matmul",
    ),
    "scale_of_transposed_matmul": (
        lambda b: b.pointwise(
            "mul(x0,x1)", b.layer(MatMul(False, True), b.input("n", 3, 4), b.weights(6, 4)), b.weights(1, 6)
        ),
        "matmul",
    ),
    "one_number_for_all": (
        lambda b: b.pointwise("div(x0,3.0);add(t0,2.0)", b.layer(MatMul(), b.input("n", 4), b.weights(4, 6))),
        "matmul",
    ),
    "layer_norm": (
        lambda b: b.pointwise(
            "mul(x0,x1);add(t0,x2)",
            b.layer(LayerNorm(-2), b.input("n", 3, 4), b.constant(np.ones(1, np.float32))),
            b.weights(3, 4),
            b.weights(4),
        ),
        "layer_norm",
    ),
}


@pytest.mark.parametrize(("make", "kind"), INTO_PRODUCER.values(), ids=INTO_PRODUCER)
def test_affine_layers_move_into_the_layer_before(make: Make, kind: str) -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("abs(x0)", make(b))), {"input0": sizes(b)})
    after = affine_into_producer(before)
    assert kinds(after) == [kind, "abs(x0)"]
    assert_same(before, after, {"input0": sizes(b)})


def sizes(b: Builder) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else 7 for d in b.inputs["input0"].shape or ())


NOT_INTO_PRODUCER: dict[str, Make] = {
    "read_elsewhere": lambda b: _read_twice(b),
    "weights_of_the_run": lambda b: batch_norm(
        b, b.layer(Conv((1, 1), (0,) * 4, (1, 1)), image(b), b.input(6, 4, 1, 1)), 6
    ),
    "after_an_activation": lambda b: batch_norm(
        b, b.layer(Conv((1, 1), (0,) * 4, (1, 1), epilogue=Epilogue("relu")), image(b), b.weights(6, 4, 1, 1)), 6
    ),
    "not_per_channel": lambda b: b.pointwise("mul(x0,x1)", b.conv(image(b), 6, 4), b.weights(5, 1)),
    "channels_broadcast": lambda b: b.pointwise("mul(x0,x1)", b.conv(image(b), 1, 4), b.weights(6, 1, 1)),
    "more_axes": lambda b: b.pointwise("mul(x0,x1)", b.conv(image(b), 6, 4), b.weights(1, 1, 6, 1, 1)),
    "not_affine": lambda b: b.pointwise("mul(x0,x0)", b.conv(image(b), 6, 4)),
    "not_finite": lambda b: b.pointwise(
        "div(x0,x1)", b.conv(image(b), 6, 4), b.constant(np.zeros((6, 1, 1), np.float32))
    ),
    "vector_times_matrix": lambda b: b.pointwise(
        "add(x0,x1)", b.layer(MatMul(), b.input(4), b.weights(4, 6)), b.weights(1, 6)
    ),
    "layer_norm_over_other_axes": lambda b: b.pointwise(
        "mul(x0,x1)", b.layer(LayerNorm(-1), b.input("n", 3, 4), b.weights(4)), b.weights(3, 1)
    ),
}


def _read_twice(b: Builder) -> str:
    x = b.conv(image(b), 6, 4)
    return b.pointwise("add(x0,x1)", batch_norm(b, x, 6), x)


@pytest.mark.parametrize("make", NOT_INTO_PRODUCER.values(), ids=NOT_INTO_PRODUCER)
def test_affine_layers_that_stay(make: Make) -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("abs(x0)", make(b))))
    assert affine_into_producer(before) is before


def test_producer_that_makes_a_graph_output_is_not_changed() -> None:
    b = Builder()
    x = b.conv(image(b), 6, 4)
    before = hinted(b.graph(batch_norm(b, x, 6), x))
    assert affine_into_producer(before) is before


def test_shared_weights_are_copied() -> None:
    b = Builder()
    w, bias = b.weights(4, 4, 1, 1), b.weights(4)
    conv = Conv((1, 1), (0,) * 4, (1, 1), 1, True)
    first = batch_norm(b, b.layer(conv, image(b), w, bias), 4)
    second = batch_norm(b, b.layer(conv, first, w, bias), 4)
    before = hinted(b.graph(b.layer(conv, second, w, bias)))
    after = affine_into_producer(before)
    assert kinds(after) == ["conv"] * 3
    assert after.constants[w] is before.constants[w]
    assert len(after.constants) == 6
    assert_same(before, after)


def test_bias_alone_leaves_the_weights_shared() -> None:
    b = Builder()
    w = b.weights(4, 4, 1, 1)
    conv = Conv((1, 1), (0,) * 4, (1, 1))
    x = image(b)
    before = hinted(b.graph(*(b.pointwise("add(x0,x1)", b.layer(conv, x, w), b.weights(4, 1, 1)) for _ in range(2))))
    after = affine_into_producer(before)
    assert kinds(after) == ["conv", "conv"]
    assert {layer.inputs[1] for layer in after.layers} == {w}
    assert_same(before, after)


def per_channel(b: Builder, x: str, channels: int = 4) -> str:
    return b.pointwise("mul(x0,x1);add(t0,x2)", x, b.weights(channels, 1, 1), b.weights(channels, 1, 1))


INTO_CONV: dict[str, Make] = {
    "mean_and_deviation": lambda b: b.conv(
        b.pointwise("sub(x0,x1);div(t0,x2)", image(b, 3), b.weights(1, 3, 1, 1), b.positive(3, 1, 1)), 8, 3, kernel=3
    ),
    "one_scale_with_pads": lambda b: b.conv(
        b.pointwise("mul(x0,0.00392)", image(b, 3)), 8, 3, kernel=3, pad=1, bias=True
    ),
    "grouped": lambda b: b.conv(per_channel(b, image(b)), 6, 4, kernel=2, groups=2, bias=True),
    "batch_norm": lambda b: b.conv(batch_norm(b, image(b), 4), 6, 4),
    "matmul": lambda b: b.layer(
        MatMul(), b.pointwise("mul(x0,x1);sub(t0,2.0)", b.input("n", 3, 4), b.weights(4)), b.weights(4, 6)
    ),
    "transposed_matmul": lambda b: b.layer(
        MatMul(False, True, True),
        b.pointwise("mul(x0,x1);sub(t0,2.0)", b.input("n", 4), b.weights(4)),
        b.weights(6, 4),
        b.weights(6),
    ),
}
NOT_INTO_CONV: dict[str, Make] = {
    "shift_with_pads": lambda b: b.conv(per_channel(b, image(b)), 6, 4, kernel=3, pad=1),
    "channels_broadcast": lambda b: b.conv(per_channel(b, b.input(None, 1, 5, 5)), 6, 4),
    "not_per_channel": lambda b: b.conv(b.pointwise("mul(x0,x1)", image(b), b.weights(5, 1)), 6, 4),
    "weights_of_the_run": lambda b: b.layer(MatMul(), b.pointwise("mul(x0,2.0)", b.input("n", 4)), b.input(4, 6)),
    "rows_of_the_left_operand": lambda b: b.layer(
        MatMul(True), b.pointwise("mul(x0,x1)", b.input(4, "n"), b.weights(4, 1)), b.weights(4, 6)
    ),
}


@pytest.mark.parametrize("make", INTO_CONV.values(), ids=INTO_CONV)
def test_affine_layers_move_into_the_layer_after(make: Make) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)), {"input0": sizes(b)})
    after = affine_into_conv(before)
    assert len(after.layers) == 1
    assert_same(before, after, {"input0": sizes(b)})


@pytest.mark.parametrize("make", NOT_INTO_CONV.values(), ids=NOT_INTO_CONV)
def test_affine_layers_that_stay_before(make: Make) -> None:
    b = Builder()
    shapes = {
        name: tuple(d if isinstance(d, int) else 7 for d in i.shape or ()) for name, i in _inputs(b, make).items()
    }
    before = hinted(b.graph(b.layers[-1].outputs[0]), shapes)
    assert affine_into_conv(before) is before


def _inputs(b: Builder, make: Make) -> dict:
    make(b)
    return b.inputs


def test_batch_norm_without_a_neighbour_becomes_a_program() -> None:
    b = Builder()
    before = hinted(b.graph(batch_norm(b, image(b), 4)))
    after = affine_chain(before)
    assert kinds(after) == ["mul(x0,x1);add(t0,x2)"]
    assert [after.constants[name].shape for name in after.layers[0].inputs[1:]] == [(4, 1, 1)] * 2
    assert_same(before, after)


def test_affine_layers_in_a_row_become_one() -> None:
    b = Builder()
    x = batch_norm(b, b.pointwise("add(x0,2.0)", per_channel(b, image(b))), 4)
    before = hinted(b.graph(b.pointwise("sub(x1,x0)", x, b.weights(4, 1, 1))))
    after = affine_chain(before)
    assert kinds(after) == ["mul(x0,x1);add(t0,x2)"]
    assert_same(before, after)


def test_affine_layers_whose_constants_would_grow_stay_apart() -> None:
    b = Builder()
    before: Graph = hinted(
        b.graph(b.pointwise("mul(x0,x1)", b.pointwise("mul(x0,x1)", image(b), b.weights(4, 1, 1)), b.weights(5, 1)))
    )
    assert affine_chain(before) is before


def test_batch_norm_with_statistics_of_the_run_stays() -> None:
    b = Builder()
    x = image(b)
    before = hinted(b.graph(b.layer(BatchNorm(1e-5), x, *(b.input(4) for _ in range(4)))))
    assert affine_chain(before) is before
