"""MatMul, Gemm, convolution, pooling: static pads, automatic pads, fused forms."""

from __future__ import annotations

import pytest

from tests.importer_cases import Case, check, x
from tests.onnx_build import normal

IMAGE = x(1, 3, 7, 6)
WEIGHTS = {"w": normal(4, 3, 3, 3, seed=1)}
ROW = {"x": normal(3, 4)}


CASES: dict[str, Case] = {
    # matrices
    "matmul_batched": Case("MatMul", {"x": normal(2, 1, 3, 4), "w": normal(5, 4, 2)}, ("matmul",)),
    "gemm_row_bias": Case("Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(5)}),
    "gemm_1xn_bias": Case("Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(1, 5)}),
    "gemm_scalar_bias": Case("Gemm", ROW, ("matmul", "pointwise"), constants={"w": normal(4, 5), "c": normal(1)}),
    "gemm_column_bias": Case("Gemm", ROW, ("matmul", "pointwise"), constants={"w": normal(4, 5), "c": normal(3, 1)}),
    "gemm_factors_fold": Case(
        "Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(5)}, attributes={"alpha": 0.5, "beta": 2.0}
    ),
    "gemm_factors_computed": Case(
        "Gemm",
        {"x": normal(3, 4), "w": normal(4, 5), "c": normal(5)},
        ("matmul", "pointwise"),
        attributes={"alpha": 0.5, "beta": 2.0},
    ),
    "gemm_alpha_without_addend": Case(
        "Gemm", {"x": normal(3, 4), "w": normal(4, 5)}, ("matmul", "pointwise"), attributes={"alpha": 0.5}
    ),
    "gemm_transposed": Case(
        "Gemm",
        {"x": normal(4, 3)},
        ("matmul",),
        constants={"w": normal(5, 4), "c": normal(5)},
        attributes={"transA": 1, "transB": 1},
    ),
    "gemm_opset_9": Case("Gemm", ROW, ("matmul",), 9, constants={"w": normal(4, 5), "c": normal(5)}),
    "gemm_unknown_sizes": Case(
        "Gemm", {"x": normal(3, 4), "w": normal(4, 5), "c": normal(5)}, ("matmul", "pointwise"), declared=False
    ),
    "microsoft_fused_matmul": Case(
        "FusedMatMul",
        {"x": normal(4, 3), "w": normal(4, 5)},
        ("matmul", "pointwise"),
        domain="com.microsoft",
        attributes={"transA": 1, "alpha": 0.25},
    ),
    # convolution and pooling
    "conv": Case("Conv", IMAGE, ("conv",), constants=WEIGHTS),
    "conv_bias_stride_pads_dilation": Case(
        "Conv",
        x(1, 3, 9, 8),
        ("conv",),
        constants={**WEIGHTS, "b": normal(4)},
        attributes={"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
    ),
    "conv_grouped": Case("Conv", x(1, 4, 5, 5), ("conv",), constants={"w": normal(8, 2, 3, 3)}, attributes={"group": 2}),
    "conv_1d": Case("Conv", x(2, 3, 9), ("conv",), constants={"w": normal(4, 3, 3)}, attributes={"pads": [1, 1]}),
    "conv_3d": Case("Conv", x(1, 2, 4, 5, 4), ("conv",), constants={"w": normal(3, 2, 2, 3, 2)}),
    "conv_computed_weights": Case("Conv", {**IMAGE, **WEIGHTS}, ("conv",)),
    "conv_valid": Case("Conv", IMAGE, ("conv",), constants=WEIGHTS, attributes={"auto_pad": "VALID"}),
    "conv_same_upper_known_sizes": Case(
        "Conv", IMAGE, ("conv",), constants=WEIGHTS, attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    ),
    "conv_same_upper_unknown_sizes": Case(
        "Conv",
        IMAGE,
        ("same_conv",),
        constants=WEIGHTS,
        declared=False,
        attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "conv_same_lower_unknown_sizes": Case(
        "Conv",
        IMAGE,
        ("same_conv",),
        constants={**WEIGHTS, "b": normal(4)},
        declared=False,
        attributes={"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    ),
    "microsoft_fused_conv": Case(
        "FusedConv",
        IMAGE,
        ("conv",),
        constants={**WEIGHTS, "b": normal(4)},
        domain="com.microsoft",
        attributes={"activation": "LeakyRelu", "activation_params": [0.25]},
    ),
    "microsoft_fused_conv_residual": Case(
        "FusedConv",
        {**IMAGE, "z": normal(1, 4, 5, 4)},
        ("conv",),
        domain="com.microsoft",
        constants={**WEIGHTS, "b": normal(4)},
        order=("x", "w", "b", "z"),
        attributes={"activation": "Relu"},
    ),
    "conv_transpose": Case(
        "ConvTranspose",
        x(1, 3, 4, 5),
        ("conv_transpose",),
        constants={"w": normal(3, 2, 3, 3), "b": normal(2)},
        attributes={"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 0]},
    ),
    "conv_transpose_same_upper": Case(
        "ConvTranspose",
        x(1, 3, 4, 5),
        ("conv_transpose",),
        constants={"w": normal(3, 2, 3, 3)},
        attributes={"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "conv_transpose_same_lower": Case(
        "ConvTranspose",
        x(1, 3, 4, 5),
        ("conv_transpose",),
        constants={"w": normal(3, 2, 3, 3)},
        attributes={"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "conv_transpose_output_shape": Case(
        "ConvTranspose",
        x(1, 3, 4, 5),
        ("conv_transpose",),
        constants={"w": normal(3, 2, 3, 3)},
        attributes={"strides": [2, 2], "output_shape": [8, 10]},
    ),
    "max_pool": Case("MaxPool", IMAGE, ("pool",), attributes={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "max_pool_ceil_dilated": Case(
        "MaxPool",
        x(1, 2, 9, 8),
        ("pool",),
        attributes={"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1, "dilations": [2, 1]},
    ),
    "max_pool_opset_8": Case("MaxPool", IMAGE, ("pool",), 8, attributes={"kernel_shape": [2, 2]}),
    "max_pool_indices": Case("MaxPool", IMAGE, ("onnx_op",), outputs=2, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max_pool_same_unknown_sizes": Case(
        "MaxPool",
        IMAGE,
        ("same_pool",),
        declared=False,
        attributes={"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "average_pool_without_pads": Case("AveragePool", IMAGE, ("pool",), attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average_pool_with_pads": Case(
        "AveragePool",
        IMAGE,
        ("pool",),
        attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "average_pool_same_unknown_sizes": Case(
        "AveragePool",
        IMAGE,
        ("same_pool",),
        declared=False,
        attributes={"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "global_average_pool": Case("GlobalAveragePool", IMAGE, ("global_pool",)),
    "global_max_pool": Case("GlobalMaxPool", IMAGE, ("global_pool",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ops_and_numbers(case: Case) -> None:
    check(case)
