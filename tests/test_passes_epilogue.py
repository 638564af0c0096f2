"""Activations, residuals and pads that move into other layers, transposes into products, programs into programs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from graph_building import Builder, assert_same, hinted, kinds

from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.pool import Pool
from softneuro.passes.activation import activation_into_epilogue
from softneuro.passes.join_inputs import join_inputs
from softneuro.passes.matmul_transpose import matmul_transpose
from softneuro.passes.pad_into_window import pad_into_window
from softneuro.passes.pointwise_chain import pointwise_chain
from softneuro.passes.residual import residual_into_epilogue
from softneuro.types import DType

Make = Callable[[Builder], str]
F32 = np.float32


def image(b: Builder, channels: int = 4) -> str:
    return b.input(None, channels, "h", "w")


def epilogues(graph: object) -> list[str]:
    return [str(layer.op.epilogue) for layer in graph.layers if hasattr(layer.op, "epilogue")]  # type: ignore[attr-defined]


ACTIVATIONS: dict[str, tuple[Make, str]] = {
    "relu": (lambda b: b.pointwise("relu(x0)", b.conv(image(b), 6, 4)), "relu"),
    "clip": (lambda b: b.pointwise("clip(x0,0.0,6.0)", b.conv(image(b), 6, 4, bias=True)), "clip(0.0,6.0)"),
    "clip_from_below": (lambda b: b.pointwise("clip(x0,0.0,inf)", b.conv(image(b), 6, 4)), "clip(0.0,inf)"),
    "gelu_of_matmul": (lambda b: b.pointwise("gelu(x0)", b.layer(MatMul(), b.input("n", 4), b.weights(4, 6))), "gelu"),
    "conv_transpose": (
        lambda b: b.pointwise(
            "silu(x0)", b.layer(ConvTranspose((1,), (0, 0), (0,), (1,)), b.input(2, 4, "w"), b.weights(4, 3, 2))
        ),
        "silu",
    ),
}


@pytest.mark.parametrize(("make", "epilogue"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activation_moves_into_the_epilogue(make: Make, epilogue: str) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)))
    after = activation_into_epilogue(before)
    assert epilogues(after) == [epilogue]
    assert len(after.layers) == 1
    assert_same(before, after)


NOT_ACTIVATIONS: dict[str, Make] = {
    "not_in_the_list": lambda b: b.pointwise("erf(x0)", b.conv(image(b), 6, 4)),
    "two_instructions": lambda b: b.pointwise("relu(x0);tanh(t0)", b.conv(image(b), 6, 4)),
    "read_twice": lambda b: _times_itself(b),
    "of_integers": lambda b: b.pointwise(
        "relu(x0)", b.layer(MatMul(), b.input(2, 3, dtype=DType.I32), b.input(3, 4, dtype=DType.I32))
    ),
}


def _times_itself(b: Builder) -> str:
    x = b.conv(image(b), 6, 4)
    return b.pointwise("mul(x0,x1)", b.pointwise("sigmoid(x0)", x), x)


@pytest.mark.parametrize("make", NOT_ACTIVATIONS.values(), ids=NOT_ACTIVATIONS)
def test_activation_that_stays(make: Make) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)))
    assert activation_into_epilogue(before) is before


def test_activation_of_a_graph_output_stays() -> None:
    b = Builder()
    x = b.conv(image(b), 6, 4)
    before = hinted(b.graph(x, b.pointwise("relu(x0)", x)))
    assert activation_into_epilogue(before) is before


def test_second_activation_stays() -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("tanh(x0)", b.pointwise("relu(x0)", b.conv(image(b), 6, 4)))))
    after = activation_into_epilogue(before)
    assert kinds(after) == ["conv", "tanh(x0)"]
    assert_same(before, after)


def fused(before: object) -> object:
    return activation_into_epilogue(residual_into_epilogue(activation_into_epilogue(before)))  # type: ignore[arg-type]


def block(b: Builder, *, inner: str = "", outer: str = "", swapped: bool = False) -> str:
    x = image(b)
    y = b.conv(x, 4, 4, kernel=3, pad=1)
    y = b.pointwise(inner, y) if inner else y
    y = b.pointwise("add(x0,x1)", x, y) if swapped else b.pointwise("add(x0,x1)", y, x)
    return b.pointwise(outer, y) if outer else y


def two_convs(b: Builder, *, first: str = "", outer: str = "") -> str:
    x = image(b)
    one = b.conv(x, 4, 4)
    one = b.pointwise(first, one) if first else one
    y = b.pointwise("add(x0,x1)", one, b.pointwise("relu(x0)", b.conv(x, 4, 4)))
    return b.pointwise(outer, y) if outer else y


RESIDUALS: dict[str, tuple[Make, list[str]]] = {
    "before_relu": (lambda b: block(b, outer="relu(x0)"), ["before:relu"]),
    "operands_swapped": (lambda b: block(b, outer="relu(x0)", swapped=True), ["before:relu"]),
    "no_activation": (block, ["before:"]),
    "after_silu": (lambda b: block(b, inner="silu(x0)"), ["silu:after"]),
    "later_conv_takes_it": (two_convs, ["", "relu:after"]),
    "linear_conv_takes_it_for_a_relu": (lambda b: two_convs(b, outer="relu(x0)"), ["relu", "before:relu"]),
    "later_of_two_with_activations": (lambda b: two_convs(b, first="tanh(x0)"), ["tanh", "relu:after"]),
}


@pytest.mark.parametrize(("make", "wanted"), RESIDUALS.values(), ids=RESIDUALS)
def test_residual_moves_into_the_epilogue(make: Make, wanted: list[str]) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)))
    after = fused(before)
    assert epilogues(after) == wanted
    assert len(after.layers) == len(wanted)  # type: ignore[attr-defined]
    assert_same(before, after)  # type: ignore[arg-type]


def test_residuals_in_a_row_go_to_one_conv_each() -> None:
    b = Builder()
    x = image(b)
    y = b.pointwise("add(x0,x1)", b.conv(x, 4, 4), b.conv(x, 4, 4))
    before = hinted(b.graph(b.pointwise("add(x0,x1)", b.pointwise("add(x0,x1)", y, b.conv(y, 4, 4)), x)))
    after = fused(before)
    assert kinds(after) == ["conv", "conv", "conv", "add(x0,x1)"]  # type: ignore[arg-type]
    assert_same(before, after)  # type: ignore[arg-type]


NOT_RESIDUALS: dict[str, Make] = {
    "conv_broadcasts": lambda b: b.pointwise(
        "add(x0,x1)", b.conv(b.input(None, 4, 1, 1), 6, 4), b.input(None, 6, "h", "w")
    ),
    "other_broadcasts": lambda b: b.pointwise("add(x0,x1)", b.conv(image(b), 6, 4), b.input(6, 1, 1)),
    "constant": lambda b: b.pointwise("add(x0,x1)", b.conv(b.input(2, 4, 2, 2), 6, 4), b.weights(2, 6, 2, 2)),
    "not_an_addition": lambda b: b.pointwise("mul(x0,x1)", b.conv(image(b), 4, 4), b.input(None, 4, "h", "w")),
    "no_linear_operand": lambda b: b.pointwise("add(x0,x1)", image(b), b.input(None, 4, "h", "w")),
    "both_read_elsewhere": lambda b: _read_twice(b),
}


def _read_twice(b: Builder) -> str:
    x = b.conv(image(b), 4, 4)
    return b.pointwise("mul(x0,x1)", b.pointwise("add(x0,x1)", x, b.inputs and "input0"), x)


@pytest.mark.parametrize("make", NOT_RESIDUALS.values(), ids=NOT_RESIDUALS)
def test_addition_that_stays(make: Make) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)))
    assert residual_into_epilogue(before) is before


def padded(
    b: Builder, x: str, value: float = 0.0, *, mode: str = "constant", pads: tuple[int, ...] = (0, 0, 1, 0, 0, 0, 2, 1)
) -> str:
    return b.layer(Pad(mode, pads, value), x)


def pool(b: Builder, x: str, kind: str, *, pad: int = 0, include: bool = False, kernel: int = 4) -> str:
    return b.layer(Pool(kind, (kernel, kernel), (2, 1), (pad,) * 4, (1, 1), False, include), x)  # type: ignore[arg-type]


PADS: dict[str, Make] = {
    "conv": lambda b: b.conv(padded(b, image(b)), 6, 4, kernel=3, pad=1),
    "average_of_all": lambda b: pool(b, padded(b, image(b)), "average", include=True),
    "average_with_pads_of_its_own": lambda b: pool(b, padded(b, image(b)), "average", pad=1, include=True),
    "average_of_inside": lambda b: pool(b, padded(b, image(b)), "average"),
    "max_of_lowest": lambda b: pool(b, padded(b, image(b), -math.inf), "max", pad=1),
}
NOT_PADS: dict[str, Make] = {
    "reflected": lambda b: b.conv(padded(b, image(b), mode="reflect"), 6, 4),
    "other_value": lambda b: b.conv(padded(b, image(b), 1.0), 6, 4),
    "crops": lambda b: b.conv(padded(b, image(b), pads=(0, 0, -1, 0, 0, 0, 0, 0)), 6, 4),
    "pads_channels": lambda b: b.conv(padded(b, image(b), pads=(0, 1, 0, 0, 0, 1, 0, 0)), 6, 6),
    "average_with_pads_outside": lambda b: pool(b, padded(b, image(b)), "average", pad=1),
    "max_of_zeros": lambda b: pool(b, padded(b, image(b)), "max"),
    "max_of_nothing_but_zeros": lambda b: pool(b, padded(b, _not_negative(b)), "max", kernel=2),
}


def _not_negative(b: Builder) -> str:
    return b.pointwise("relu(x0)", b.conv(image(b), 4, 4))


@pytest.mark.parametrize("make", PADS.values(), ids=PADS)
def test_pads_move_into_the_window(make: Make) -> None:
    b = Builder()
    x = b.graph(make(b))
    before = hinted(x, {"input0": (2, 4, 5, 6)})
    after = pad_into_window(before)
    assert len(after.layers) == 1
    assert_same(before, after, {"input0": (1, 4, 7, 5)})


@pytest.mark.parametrize("make", NOT_PADS.values(), ids=NOT_PADS)
def test_pads_that_stay(make: Make) -> None:
    b = Builder()
    before = hinted(
        activation_into_epilogue(hinted(b.graph(make(b)), {"input0": (2, 4, 5, 6)})), {"input0": (2, 4, 5, 6)}
    )
    assert pad_into_window(before) is before


def test_zeros_around_what_is_not_negative_move_into_a_max_pool() -> None:
    b = Builder()
    before = activation_into_epilogue(
        hinted(b.graph(pool(b, padded(b, _not_negative(b)), "max")), {"input0": (2, 4, 5, 6)})
    )
    after = pad_into_window(before)
    assert kinds(after) == ["conv", "pool"]
    assert_same(before, after, {"input0": (1, 4, 7, 5)})


TRANSPOSES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], list[str], bool]] = {
    "swap": ((2, 3, 4), (2, 5, 4), (0, 2, 1), ["matmul"], True),
    "heads": ((2, 3, 5, 4), (2, 6, 3, 4), (0, 2, 3, 1), ["transpose", "matmul"], True),
    "innermost_axis_moves_far": ((2, 3, 4), (4, 2, 6), (1, 0, 2), ["transpose", "matmul"], False),
}


@pytest.mark.parametrize(("left", "right", "perm", "wanted", "flag"), TRANSPOSES.values(), ids=TRANSPOSES)
def test_transposes_move_into_the_product(
    left: tuple[int, ...], right: tuple[int, ...], perm: tuple[int, ...], wanted: list[str], flag: bool
) -> None:
    b = Builder()
    before = hinted(b.graph(b.layer(MatMul(), b.input(*left), b.layer(Transpose(perm), b.input(*right)))))
    after = matmul_transpose(before)
    assert kinds(after) == wanted
    op = after.layers[-1].op
    assert isinstance(op, MatMul)
    assert op.transpose_b == flag
    assert_same(before, after)


def test_transposes_of_both_operands_flip_flags_that_are_set() -> None:
    b = Builder()
    swap = Transpose((1, 0))
    x, y = b.layer(swap, b.input(3, 4)), b.layer(swap, b.input(5, 4))
    before = hinted(b.graph(b.layer(MatMul(True, False), x, y), b.pointwise("neg(x0)", x)))
    after = matmul_transpose(before)
    assert kinds(after) == ["transpose", "matmul", "neg(x0)"]
    assert after.layers[1].op == MatMul(False, True)
    assert_same(before, after)


POINTWISE: dict[str, tuple[Make, list[str]]] = {
    "three_in_a_row": (
        lambda b: b.pointwise("tanh(x0)", b.pointwise("mul(x0,2.0)", b.pointwise("neg(x0)", image(b)))),
        ["neg(x0);mul(t0,2.0);tanh(t1)"],
    ),
    "second_operand": (
        lambda b: b.pointwise("sub(x0,x1)", image(b), b.pointwise("exp(x0)", b.input(None, 4, "h", "w"))),
        ["exp(x1);sub(x0,t0)"],
    ),
    "shared_input": (
        lambda b: b.pointwise("mul(x0,x1)", image(b), b.pointwise("erf(x0)", "input0")),
        ["erf(x0);mul(x0,t0)"],
    ),
    "same_input_twice": (
        lambda b: b.pointwise("mul(x0,x1)", *[b.pointwise("erf(x0)", image(b))] * 2),
        ["erf(x0);mul(t0,t0)"],
    ),
    "broadcast_operand": (
        lambda b: b.pointwise("mul(x0,x1)", b.pointwise("erf(x0)", image(b)), b.weights(4, 1, 1)),
        ["erf(x0);mul(t0,x1)"],
    ),
    "broadcast_program": (
        lambda b: b.pointwise("mul(x0,x1)", image(b), b.pointwise("erf(x0)", b.input(None, 4, 1, 1))),
        ["erf(x0)", "mul(x0,x1)"],
    ),
    "mixed_types": (
        lambda b: b.pointwise("mul(x0,2.0)", b.pointwise("cast_f32(x0)", b.input(3, dtype=DType.I64))),
        ["cast_f32(x0)", "mul(x0,2.0)"],
    ),
    "comparison_inside": (
        lambda b: b.pointwise("where(x0,x1,0.0)", b.pointwise("less(x0,1.0)", image(b)), "input0"),
        ["less(x0,1.0);where(t0,x0,0.0)"],
    ),
    "nine_inputs": (
        lambda b: b.pointwise(
            "add(x0,x1)",
            b.pointwise(
                "max(x0,x1);max(t0,x2);max(t1,x3);max(t2,x4);max(t3,x5);max(t4,x6);max(t5,x7)",
                *(b.input(2) for _ in range(8)),
            ),
            b.input(2),
        ),
        ["max(x0,x1);max(t0,x2);max(t1,x3);max(t2,x4);max(t3,x5);max(t4,x6);max(t5,x7)", "add(x0,x1)"],
    ),
}


@pytest.mark.parametrize(("make", "wanted"), POINTWISE.values(), ids=POINTWISE)
def test_programs_in_a_row_become_one(make: Make, wanted: list[str]) -> None:
    b = Builder()
    before = hinted(b.graph(make(b)))
    after = pointwise_chain(join_inputs(before))
    assert kinds(after) == wanted
    assert_same(before, after)


def test_program_with_two_readers_is_not_computed_twice() -> None:
    b = Builder()
    x = b.pointwise("exp(x0)", image(b))
    before = hinted(b.graph(b.pointwise("neg(x0)", x), b.pointwise("abs(x0)", x)))
    assert pointwise_chain(before) is before
