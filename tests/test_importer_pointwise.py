"""Element-wise operators become programs of one Pointwise layer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.importer_cases import Case, F, check, ints, x
from tests.onnx_build import normal

POSITIVE = {"x": np.abs(normal(2, 3)) + 1}


CASES: dict[str, Case] = {
    # element-wise
    "relu": Case("Relu", x(2, 3), ("pointwise",)),
    "relu_opset_6": Case("Relu", x(2, 3), ("pointwise",), 7),
    "leaky_relu": Case("LeakyRelu", x(2, 3), ("pointwise",), attributes={"alpha": 0.2}),
    "hard_sigmoid": Case("HardSigmoid", x(2, 3), ("pointwise",)),
    "hard_swish": Case("HardSwish", x(2, 3), ("pointwise",)),
    "elu": Case("Elu", x(2, 3), ("pointwise",), attributes={"alpha": 0.7}),
    "selu": Case("Selu", x(2, 3), ("pointwise",)),
    "celu": Case("Celu", x(2, 3), ("pointwise",), attributes={"alpha": 0.5}),
    "thresholded_relu": Case("ThresholdedRelu", x(2, 3), ("pointwise",), attributes={"alpha": 0.3}),
    "softplus": Case("Softplus", x(2, 3), ("pointwise",)),
    "mish": Case("Mish", x(2, 3), ("pointwise",)),
    "gelu": Case("Gelu", x(2, 3), ("pointwise",)),
    "gelu_tanh": Case("Gelu", x(2, 3), ("pointwise",), attributes={"approximate": "tanh"}),
    "erf": Case("Erf", x(2, 3), ("pointwise",)),
    "shrink": Case("Shrink", x(4, 5), ("pointwise",), attributes={"bias": 0.1, "lambd": 0.4}),
    "sqrt": Case("Sqrt", POSITIVE, ("pointwise",)),
    "reciprocal": Case("Reciprocal", POSITIVE, ("pointwise",)),
    "round_half_to_even": Case("Round", {"x": np.array([0.5, 1.5, -0.5, -2.5], F)}, ("pointwise",)),
    "sign": Case("Sign", x(5), ("pointwise",)),
    "not": Case("Not", {"x": np.array([True, False])}, ("pointwise",)),
    "is_nan": Case("IsNaN", {"x": np.array([0, np.nan, np.inf], F)}, ("pointwise",)),
    "is_inf": Case("IsInf", {"x": np.array([0, np.nan, np.inf, -np.inf], F)}, ("pointwise",)),
    "is_inf_positive": Case("IsInf", {"x": np.array([1, np.inf, -np.inf], F)}, ("pointwise",), attributes={"detect_negative": 0}),
    "is_inf_negative": Case("IsInf", {"x": np.array([1, np.inf, -np.inf], F)}, ("pointwise",), attributes={"detect_positive": 0}),
    "is_inf_nothing": Case(
        "IsInf",
        {"x": np.array([1, np.inf, -np.inf], F)},
        ("pointwise",),
        attributes={"detect_positive": 0, "detect_negative": 0},
    ),
    "clip_opset_6_attributes": Case("Clip", x(3, 4), ("pointwise",), 7, attributes={"min": -0.5, "max": 0.5}),
    "clip_opset_6_no_bounds": Case("Clip", x(3, 4), ("identity",), 7),
    "clip_constant_inputs": Case("Clip", x(3, 4), ("pointwise",), constants={"a": np.array(-0.5, F), "b": np.array(0.5, F)}),
    "clip_only_max": Case("Clip", x(3, 4), ("pointwise",), constants={"b": np.array(0.5, F)}, order=("x", "", "b")),
    "clip_only_min_zero_is_relu": Case("Clip", x(3, 4), ("pointwise",), constants={"a": np.array(0, F)}),
    "clip_computed_bounds": Case("Clip", {**x(3, 4), "a": np.array(-0.1, F), "b": np.array(0.2, F)}, ("pointwise",)),
    "clip_computed_max_only": Case("Clip", {**x(3, 4), "b": np.array(0.2, F)}, ("pointwise",), order=("x", "", "b")),
    "clip_no_bounds": Case("Clip", x(3, 4), ("identity",)),
    "clip_integers": Case("Clip", {"x": np.arange(-4, 4)}, ("pointwise",), constants={"a": np.array(-2), "b": np.array(2)}),
    "clip_integer_bound_beyond_doubles": Case(
        "Clip",
        {"x": np.array([2**62 + 3, 5])},
        ("pointwise",),
        constants={"b": np.array(2**62 + 1)},
        order=("x", "", "b"),
    ),
    "add_broadcast": Case("Add", {"x": normal(2, 3, 4), "b": normal(3, 1, seed=1)}, ("pointwise",)),
    "add_integers": Case("Add", {"x": ints(1, 2), "b": ints(3, 4)}, ("pointwise",)),
    "div_integers_towards_zero": Case("Div", {"x": ints(-7, 7, 8), "b": ints(2, -2, 3)}, ("pointwise",)),
    "pow_mixed_types": Case("Pow", {"x": normal(3), "b": ints(2, 3, 1)}, ("pointwise",)),
    "mod_integers": Case("Mod", {"x": ints(-7, 7), "b": ints(3, -3)}, ("pointwise",)),
    "fmod": Case("Mod", {"x": normal(4), "b": np.array(1.5, F)}, ("pointwise",), attributes={"fmod": 1}),
    "prelu_per_channel": Case("PRelu", {"x": normal(1, 3, 2, 2), "b": normal(3, 1, 1, seed=1)}, ("pointwise",)),
    "less_or_equal": Case("LessOrEqual", {"x": normal(4), "b": normal(4, seed=1)}, ("pointwise",)),
    "equal_bool": Case("Equal", {"x": np.array([True, False]), "b": np.array([True, True])}, ("pointwise",)),
    "sum_of_one": Case("Sum", x(2, 3), ("identity",)),
    "sum_of_three": Case("Sum", {"a": normal(2, 3), "b": normal(3), "c": normal(2, 1)}, ("pointwise",)),
    "mean_of_three": Case("Mean", {"a": normal(2, 3), "b": normal(3), "c": normal(2, 1)}, ("pointwise",)),
    "max_of_four": Case("Max", {n: normal(5, seed=i) for i, n in enumerate("abcd")}, ("pointwise",)),
    "min_integers": Case("Min", {"a": ints(3, 1), "b": ints(2, 2)}, ("pointwise",)),
    "where": Case("Where", {"c": np.array([True, False]), "a": normal(2), "b": normal(2, seed=1)}, ("pointwise",)),
    "cast_to_integer": Case("Cast", {"x": np.array([-1.7, 2.9], F)}, ("pointwise",), attributes={"to": 7}),
    "cast_to_bool": Case("Cast", {"x": np.array([0, 0.5], F)}, ("pointwise",), attributes={"to": 9}),
    "cast_to_half": Case("Cast", x(4), ("pointwise",), attributes={"to": 10}),
    "cast_to_string": Case("Cast", {"x": ints(1, 23)}, ("onnx_op",), attributes={"to": 8}),
    "cast_like": Case("CastLike", {"x": normal(3), "like": ints(1)}, ("pointwise",)),
    "microsoft_quick_gelu": Case("QuickGelu", x(2, 3), ("pointwise",), domain="com.microsoft"),
    "microsoft_bias_gelu": Case("BiasGelu", {**x(2, 3), "b": normal(3)}, ("pointwise",), domain="com.microsoft"),
    "microsoft_fast_gelu": Case("FastGelu", {**x(2, 3), "b": normal(3)}, ("pointwise",), domain="com.microsoft"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ops_and_numbers(case: Case) -> None:
    check(case)
