"""Formulas that are spelled out, in the spellings that exporters write, and formulas that only look like them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from graph_building import Builder, assert_same, hinted, kinds

from softneuro.graph import Graph
from softneuro.ops.norm import LayerNorm
from softneuro.ops.reduce import Reduce
from softneuro.ops.softmax import Softmax
from softneuro.passes.affine_into_producer import affine_into_producer
from softneuro.passes.literals import write_literals
from softneuro.passes.spelled_activations import SPELLINGS, spelled_activations
from softneuro.passes.spelled_layer_norm import spelled_layer_norm
from softneuro.passes.spelled_softmax import spelled_softmax
from softneuro.types import DType

Make = Callable[[Builder, str], str]
F32 = np.float32


def chain(b: Builder, x: str, *programs: str) -> str:
    """One layer for each program; in all of them x0 is the result before and x1 (if read) the start."""
    result = x
    for program in programs:
        result = b.pointwise(program, *([result, x] if "x1" in program else [result]))
    return result


ACTIVATIONS: dict[str, tuple[Make, str]] = {
    "relu_as_max": (lambda b, x: chain(b, x, "max(x0,0.0)"), "relu(x0)"),
    "relu_as_clip": (lambda b, x: chain(b, x, "clip(x0,0.0,inf)"), "relu(x0)"),
    "clip_as_min_of_max": (lambda b, x: chain(b, x, "max(x0,-1.0)", "min(2.0,x0)"), "clip(x0,-1.0,2.0)"),
    "relu6_as_relu_and_min": (lambda b, x: chain(b, x, "relu(x0)", "min(x0,6.0)"), "clip(x0,0.0,6.0)"),
    "clip_of_clip": (lambda b, x: chain(b, x, "clip(x0,-1.0,5.0)", "clip(x0,0.0,9.0)"), "clip(x0,0.0,5.0)"),
    "relu_of_relu": (lambda b, x: chain(b, x, "relu(x0)", "relu(x0)"), "relu(x0)"),
    "clip_from_above": (lambda b, x: chain(b, x, "min(x0,1.0)"), "clip(x0,-inf,1.0)"),
    "leaky_relu_as_max": (lambda b, x: chain(b, x, "mul(x0,0.1)", "max(x0,x1)"), "leaky_relu(x0,0.1)"),
    "prelu_of_a_number": (lambda b, x: chain(b, x, "prelu(x0,0.25)"), "leaky_relu(x0,0.25)"),
    "silu": (lambda b, x: chain(b, x, "sigmoid(x0)", "mul(x1,x0)"), "silu(x0)"),
    "silu_by_division": (lambda b, x: chain(b, x, "neg(x0)", "exp(x0)", "add(1.0,x0)", "div(x1,x0)"), "silu(x0)"),
    "sigmoid_by_division": (
        lambda b, x: chain(b, x, "mul(x0,-1.0)", "exp(x0)", "add(x0,1.0)", "reciprocal(x0)"),
        "sigmoid(x0)",
    ),
    "hard_sigmoid": (
        lambda b, x: chain(b, x, "add(x0,3.0)", "clip(x0,0.0,6.0)", "div(x0,6.0)"),
        f"hard_sigmoid(x0,{1 / 6},0.5)",
    ),
    "hard_sigmoid_of_one": (
        lambda b, x: chain(b, x, "mul(x0,0.2)", "add(x0,0.5)", "clip(x0,0.0,1.0)"),
        "hard_sigmoid(x0,0.2,0.5)",
    ),
    "hard_swish": (
        lambda b, x: chain(b, x, "add(x0,3.0)", "clip(x0,0.0,6.0)", "mul(x1,x0)", "div(x0,6.0)"),
        "hard_swish(x0)",
    ),
    "hard_swish_divided_first": (
        lambda b, x: chain(
            b, x, "add(3.0,x0)", "max(x0,0.0)", "min(x0,6.0)", f"mul(x0,{float(F32(1 / 6))})", "mul(x0,x1)"
        ),
        "hard_swish(x0)",
    ),
    "hard_swish_by_hard_sigmoid": (
        lambda b, x: chain(b, x, f"hard_sigmoid(x0,{float(F32(1 / 6))},0.5)", "mul(x0,x1)"),
        "hard_swish(x0)",
    ),
    "mish": (lambda b, x: chain(b, x, "softplus(x0)", "tanh(x0)", "mul(x0,x1)"), "mish(x0)"),
    "mish_by_logarithm": (
        lambda b, x: chain(b, x, "exp(x0)", "add(x0,1.0)", "log(x0)", "tanh(x0)", "mul(x1,x0)"),
        "mish(x0)",
    ),
    "softplus": (lambda b, x: chain(b, x, "exp(x0)", "add(1.0,x0)", "log(x0)"), "softplus(x0)"),
    "gelu_by_division": (
        lambda b, x: chain(
            b, x, f"div(x0,{float(F32(math.sqrt(2)))})", "erf(x0)", "add(x0,1.0)", "mul(x1,x0)", "mul(x0,0.5)"
        ),
        "gelu(x0)",
    ),
    "gelu_half_last": (
        lambda b, x: chain(
            b, x, f"mul({float(F32(math.sqrt(0.5)))},x0)", "erf(x0)", "add(1.0,x0)", "mul(0.5,x0)", "mul(x0,x1)"
        ),
        "gelu(x0)",
    ),
    "gelu_half_of_x": (
        lambda b, x: b.pointwise(
            "mul(x0,x1)",
            b.pointwise("mul(x0,0.5)", x),
            chain(b, x, f"div(x0,{math.sqrt(2)})", "erf(x0)", "add(x0,1.0)"),
        ),
        "gelu(x0)",
    ),
    "gelu_tanh_by_pow": (
        lambda b, x: chain(
            b,
            x,
            "pow(x0,3.0)",
            "mul(x0,0.044715)",
            "add(x1,x0)",
            "mul(x0,0.7978845608028654)",
            "tanh(x0)",
            "add(x0,1.0)",
            "mul(x0,0.5)",
            "mul(x1,x0)",
        ),
        "gelu_tanh(x0)",
    ),
    "gelu_tanh_by_products": (
        lambda b, x: chain(
            b,
            x,
            "mul(x0,x0)",
            "mul(x0,x1)",
            "mul(0.044715,x0)",
            "add(x1,x0)",
            "mul(0.79788458,x0)",
            "tanh(x0)",
            "add(1.0,x0)",
            "mul(x1,x0)",
            "mul(0.5,x0)",
        ),
        "gelu_tanh(x0)",
    ),
    "gelu_tanh_factored": (
        lambda b, x: b.pointwise(
            "mul(x0,x1)",
            b.pointwise("mul(x0,0.5)", x),
            chain(
                b,
                b.pointwise(
                    "mul(x0,0.7978845608)",
                    b.pointwise("mul(x0,x1)", x, b.pointwise("mul(x0,x0);mul(t0,0.044715);add(t1,1.0)", x)),
                ),
                "tanh(x0)",
                "add(x0,1.0)",
            ),
        ),
        "gelu_tanh(x0)",
    ),
}


def between(make: Make) -> Graph:
    """The formula of a tensor that other layers read too."""
    b = Builder()
    x = b.pointwise("erf(x0)", b.input(None, 3, "w"))
    return hinted(b.graph(b.pointwise("erf(x0)", make(b, x)), b.pointwise("neg(x0)", x)))


@pytest.mark.parametrize(("make", "wanted"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_spelled_activation_becomes_one_instruction(make: Make, wanted: str) -> None:
    before = between(make)
    after = spelled_activations(before)
    assert kinds(after) == ["erf(x0)", wanted, "erf(x0)", "neg(x0)"]
    assert_same(before, after)


LOOKALIKES: dict[str, Make] = {
    "other_slope": lambda b, x: chain(b, x, "hard_sigmoid(x0,0.1666,0.5)", "mul(x0,x1)"),
    "other_tensor": lambda b, x: b.pointwise("mul(x0,x1)", b.pointwise("sigmoid(x0)", x), b.input(None, 3, "w")),
    "gelu_of_another_tensor": lambda b, x: b.pointwise(
        "mul(x0,x1);mul(t0,0.5)",
        b.input(None, 3, "w"),
        chain(b, x, f"div(x0,{math.sqrt(2)})", "erf(x0)", "add(x0,1.0)"),
    ),
    "without_the_half": lambda b, x: chain(b, x, f"div(x0,{math.sqrt(2)})", "erf(x0)", "add(x0,1.0)", "mul(x1,x0)"),
    "leaky_upside_down": lambda b, x: chain(b, x, "mul(x0,2.0)", "max(x0,x1)"),
    "sum_read_elsewhere": lambda b, x: _sum_read_elsewhere(b, x),
}


def _sum_read_elsewhere(b: Builder, x: str) -> str:
    total = b.pointwise("add(x0,3.0)", x)
    return b.pointwise("div(x0,6.0);add(t0,x1)", b.pointwise("clip(x0,0.0,6.0)", total), total)


@pytest.mark.parametrize("make", LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_an_activation_stays(make: Make) -> None:
    before = between(make)
    assert spelled_activations(before) is before


def test_integers_are_clipped_as_they_are() -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("max(x0,0.0)", b.input(3, dtype=DType.I64))))
    assert spelled_activations(before) is before


@pytest.mark.parametrize(
    ("program", "instruction"), SPELLINGS, ids=[f"{new}-{i}" for i, (_, new) in enumerate(SPELLINGS)]
)
def test_every_spelling_computes_its_instruction(program: str, instruction: str) -> None:
    spelled, short = Builder(), Builder()
    before = spelled.graph(spelled.pointwise(program, spelled.input(50)))
    assert_same(before, short.graph(short.pointwise(instruction, short.input(50))))


def softmax(b: Builder, x: str, axis: int, *, shifted: bool = True) -> str:
    centred = b.pointwise("sub(x0,x1)", x, b.layer(Reduce("max", (axis,)), x)) if shifted else x
    e = b.pointwise("exp(x0)", centred)
    return b.pointwise("div(x0,x1)", e, b.layer(Reduce("sum", (axis,)), e))


@pytest.mark.parametrize(("axis", "shifted"), [(-1, True), (1, True), (2, False)])
def test_spelled_softmax_becomes_one_layer(axis: int, shifted: bool) -> None:
    b = Builder()
    before = hinted(b.graph(softmax(b, b.input(None, 5, "w"), axis, shifted=shifted)))
    after = spelled_softmax(before)
    assert [layer.op for layer in after.layers] == [Softmax({-1: -1, 1: -2, 2: -1}[axis])]
    assert_same(before, after)


def test_quotient_of_sums_over_other_axes_stays() -> None:
    b = Builder()
    e = b.pointwise("exp(x0)", b.input(2, 3, 4))
    before = hinted(b.graph(b.pointwise("div(x0,x1)", e, b.layer(Reduce("sum", (1, 2)), e))))
    assert spelled_softmax(before) is before


def layer_norm(
    b: Builder, x: str, axes: tuple[int, ...], *, square: str = "pow(x0,2.0)", mean_axes: tuple[int, ...] | None = None
) -> str:
    d = b.pointwise("sub(x0,x1)", x, b.layer(Reduce("mean", mean_axes or axes), x))
    variance = b.layer(Reduce("mean", axes), b.pointwise(square, d))
    return b.pointwise("div(x0,x1)", d, b.pointwise("sqrt(x0)", b.pointwise("add(x0,1e-05)", variance)))


@pytest.mark.parametrize(("axes", "square"), [((-1,), "pow(x0,2.0)"), ((2,), "mul(x0,x0)"), ((1, -1), "mul(x0,x0)")])
def test_spelled_layer_norm_becomes_one_layer_with_its_scale_and_bias(axes: tuple[int, ...], square: str) -> None:
    b = Builder()
    y = layer_norm(b, b.input(None, 5, 6), axes, square=square)
    before = hinted(b.graph(b.pointwise("add(x0,x1)", b.pointwise("mul(x0,x1)", y, b.weights(6)), b.weights(6))))
    after = affine_into_producer(spelled_layer_norm(before))
    assert [layer.op for layer in after.layers] == [LayerNorm(-len(axes), 1e-5, True)]
    assert_same(before, after)


@pytest.mark.parametrize(
    ("axes", "mean_axes"), [((1,), (1,)), ((-1,), (1,))], ids=["inner_axis", "mean_over_another_axis"]
)
def test_other_standardisations_stay(axes: tuple[int, ...], mean_axes: tuple[int, ...]) -> None:
    b = Builder()
    before = hinted(b.graph(layer_norm(b, b.input(None, 5, 6), axes, mean_axes=mean_axes)))
    assert spelled_layer_norm(before) is before


def test_spellings_with_constants_in_tensors() -> None:
    b = Builder()
    x = b.input(None, 4)
    clipped = b.pointwise("clip(x0,0.0,6.0)", b.pointwise("add(x0,x1)", x, b.constant(F32([3]))))
    before = hinted(b.graph(b.pointwise("div(x0,x1)", b.pointwise("mul(x0,x1)", x, clipped), b.constant(F32(6)))))
    after = spelled_activations(write_literals(before))
    assert kinds(after) == ["hard_swish(x0)"]
    assert_same(before, after)
