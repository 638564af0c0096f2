"""Every operator family: which ops it becomes, and the numbers against onnxruntime, for all of its opset forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

from softneuro import reference
from softneuro.graph import Graph
from softneuro.importer.model import import_model
from softneuro.specialise import specialise
from softneuro.types import Array
from tests.onnx_build import model, normal, one_node

ort = pytest.importorskip("onnxruntime")

F = np.float32
I64 = np.int64


@dataclass(frozen=True)
class Case:
    """One node: what it reads, at which opset, with which attributes, and the ops it must become."""

    op_type: str
    feeds: dict[str, Array]
    ops: tuple[str, ...]
    opset: int = 20
    constants: dict[str, Array] = field(default_factory=dict)
    order: tuple[str, ...] | None = None
    outputs: int = 1
    domain: str = ""
    declared: bool = True
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        return one_node(self.op_type, self.feeds, opset=self.opset, constants=self.constants, order=self.order,
                        outputs=self.outputs, domain=self.domain, declared=self.declared, **self.attributes)


def x(*shape: int) -> dict[str, Array]:
    return {"x": normal(*shape)}


def ints(*values: int) -> Array:
    return np.array(values, I64)


POSITIVE = {"x": np.abs(normal(2, 3)) + 1}
IMAGE = x(1, 3, 7, 6)
WEIGHTS = {"w": normal(4, 3, 3, 3, seed=1)}
ROW = {"x": normal(3, 4)}

LRN = ("pointwise", "reshape", "unsqueeze", "pool", "shape", "reshape", "pointwise")

SEQUENCE = x(5, 2, 3)

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
    "is_inf_positive": Case("IsInf", {"x": np.array([1, np.inf, -np.inf], F)}, ("pointwise",),
                            attributes={"detect_negative": 0}),
    "is_inf_negative": Case("IsInf", {"x": np.array([1, np.inf, -np.inf], F)}, ("pointwise",),
                            attributes={"detect_positive": 0}),
    "is_inf_nothing": Case("IsInf", {"x": np.array([1, np.inf, -np.inf], F)}, ("pointwise",),
                           attributes={"detect_positive": 0, "detect_negative": 0}),
    "clip_opset_6_attributes": Case("Clip", x(3, 4), ("pointwise",), 7, attributes={"min": -0.5, "max": 0.5}),
    "clip_opset_6_no_bounds": Case("Clip", x(3, 4), ("identity",), 7),
    "clip_constant_inputs": Case("Clip", x(3, 4), ("pointwise",), constants={"a": np.array(-0.5, F), "b": np.array(0.5, F)}),
    "clip_only_max": Case("Clip", x(3, 4), ("pointwise",), constants={"b": np.array(0.5, F)}, order=("x", "", "b")),
    "clip_only_min_zero_is_relu": Case("Clip", x(3, 4), ("pointwise",), constants={"a": np.array(0, F)}),
    "clip_computed_bounds": Case("Clip", {**x(3, 4), "a": np.array(-0.1, F), "b": np.array(0.2, F)}, ("pointwise",)),
    "clip_computed_max_only": Case("Clip", {**x(3, 4), "b": np.array(0.2, F)}, ("pointwise",), order=("x", "", "b")),
    "clip_no_bounds": Case("Clip", x(3, 4), ("identity",)),
    "clip_integers": Case("Clip", {"x": np.arange(-4, 4)}, ("pointwise",), constants={"a": np.array(-2), "b": np.array(2)}),
    "clip_integer_bound_beyond_doubles": Case("Clip", {"x": np.array([2**62 + 3, 5])}, ("pointwise",),
                                              constants={"b": np.array(2**62 + 1)}, order=("x", "", "b")),
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
    # matrices
    "matmul_batched": Case("MatMul", {"x": normal(2, 1, 3, 4), "w": normal(5, 4, 2)}, ("matmul",)),
    "gemm_row_bias": Case("Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(5)}),
    "gemm_1xn_bias": Case("Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(1, 5)}),
    "gemm_scalar_bias": Case("Gemm", ROW, ("matmul", "pointwise"), constants={"w": normal(4, 5), "c": normal(1)}),
    "gemm_column_bias": Case("Gemm", ROW, ("matmul", "pointwise"), constants={"w": normal(4, 5), "c": normal(3, 1)}),
    "gemm_factors_fold": Case("Gemm", ROW, ("matmul",), constants={"w": normal(4, 5), "c": normal(5)},
                              attributes={"alpha": 0.5, "beta": 2.0}),
    "gemm_factors_computed": Case("Gemm", {"x": normal(3, 4), "w": normal(4, 5), "c": normal(5)}, ("matmul", "pointwise"),
                                  attributes={"alpha": 0.5, "beta": 2.0}),
    "gemm_alpha_without_addend": Case("Gemm", {"x": normal(3, 4), "w": normal(4, 5)}, ("matmul", "pointwise"),
                                      attributes={"alpha": 0.5}),
    "gemm_transposed": Case("Gemm", {"x": normal(4, 3)}, ("matmul",), constants={"w": normal(5, 4), "c": normal(5)},
                            attributes={"transA": 1, "transB": 1}),
    "gemm_opset_9": Case("Gemm", ROW, ("matmul",), 9, constants={"w": normal(4, 5), "c": normal(5)}),
    "gemm_unknown_sizes": Case("Gemm", {"x": normal(3, 4), "w": normal(4, 5), "c": normal(5)}, ("matmul", "pointwise"),
                               declared=False),
    "microsoft_fused_matmul": Case("FusedMatMul", {"x": normal(4, 3), "w": normal(4, 5)}, ("matmul", "pointwise"),
                                   domain="com.microsoft", attributes={"transA": 1, "alpha": 0.25}),
    # convolution and pooling
    "conv": Case("Conv", IMAGE, ("conv",), constants=WEIGHTS),
    "conv_bias_stride_pads_dilation": Case("Conv", x(1, 3, 9, 8), ("conv",), constants={**WEIGHTS, "b": normal(4)},
                                           attributes={"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    "conv_grouped": Case("Conv", x(1, 4, 5, 5), ("conv",), constants={"w": normal(8, 2, 3, 3)}, attributes={"group": 2}),
    "conv_1d": Case("Conv", x(2, 3, 9), ("conv",), constants={"w": normal(4, 3, 3)}, attributes={"pads": [1, 1]}),
    "conv_3d": Case("Conv", x(1, 2, 4, 5, 4), ("conv",), constants={"w": normal(3, 2, 2, 3, 2)}),
    "conv_computed_weights": Case("Conv", {**IMAGE, **WEIGHTS}, ("conv",)),
    "conv_valid": Case("Conv", IMAGE, ("conv",), constants=WEIGHTS, attributes={"auto_pad": "VALID"}),
    "conv_same_upper_known_sizes": Case("Conv", IMAGE, ("conv",), constants=WEIGHTS,
                                        attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "conv_same_upper_unknown_sizes": Case("Conv", IMAGE, ("same_conv",), constants=WEIGHTS, declared=False,
                                          attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "conv_same_lower_unknown_sizes": Case("Conv", IMAGE, ("same_conv",), constants={**WEIGHTS, "b": normal(4)}, declared=False,
                                          attributes={"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "microsoft_fused_conv": Case("FusedConv", IMAGE, ("conv",), constants={**WEIGHTS, "b": normal(4)}, domain="com.microsoft",
                                 attributes={"activation": "LeakyRelu", "activation_params": [0.25]}),
    "microsoft_fused_conv_residual": Case("FusedConv", {**IMAGE, "z": normal(1, 4, 5, 4)}, ("conv",), domain="com.microsoft",
                                          constants={**WEIGHTS, "b": normal(4)}, order=("x", "w", "b", "z"),
                                          attributes={"activation": "Relu"}),
    "conv_transpose": Case("ConvTranspose", x(1, 3, 4, 5), ("conv_transpose",), constants={"w": normal(3, 2, 3, 3), "b": normal(2)},
                           attributes={"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 0]}),
    "conv_transpose_same_upper": Case("ConvTranspose", x(1, 3, 4, 5), ("conv_transpose",), constants={"w": normal(3, 2, 3, 3)},
                                      attributes={"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "conv_transpose_same_lower": Case("ConvTranspose", x(1, 3, 4, 5), ("conv_transpose",), constants={"w": normal(3, 2, 3, 3)},
                                      attributes={"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "conv_transpose_output_shape": Case("ConvTranspose", x(1, 3, 4, 5), ("conv_transpose",), constants={"w": normal(3, 2, 3, 3)},
                                        attributes={"strides": [2, 2], "output_shape": [8, 10]}),
    "max_pool": Case("MaxPool", IMAGE, ("pool",), attributes={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "max_pool_ceil_dilated": Case("MaxPool", x(1, 2, 9, 8), ("pool",),
                                  attributes={"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1, "dilations": [2, 1]}),
    "max_pool_opset_8": Case("MaxPool", IMAGE, ("pool",), 8, attributes={"kernel_shape": [2, 2]}),
    "max_pool_indices": Case("MaxPool", IMAGE, ("onnx_op",), outputs=2, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max_pool_same_unknown_sizes": Case("MaxPool", IMAGE, ("same_pool",), declared=False,
                                        attributes={"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "average_pool_without_pads": Case("AveragePool", IMAGE, ("pool",), attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average_pool_with_pads": Case("AveragePool", IMAGE, ("pool",),
                                   attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "average_pool_same_unknown_sizes": Case("AveragePool", IMAGE, ("same_pool",), declared=False,
                                            attributes={"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "global_average_pool": Case("GlobalAveragePool", IMAGE, ("global_pool",)),
    "global_max_pool": Case("GlobalMaxPool", IMAGE, ("global_pool",)),
    # reductions and normalisations
    "reduce_mean_axes_attribute": Case("ReduceMean", x(2, 3, 4), ("reduce",), 13, attributes={"axes": [1, -1], "keepdims": 0}),
    "reduce_mean_axes_constant": Case("ReduceMean", x(2, 3, 4), ("reduce",), constants={"axes": ints(1)}),
    "reduce_sum_axes_computed": Case("ReduceSum", {**x(2, 3, 4), "axes": ints(0, 2)}, ("reduce",)),
    "reduce_sum_no_axes": Case("ReduceSum", x(2, 3), ("reduce",), attributes={"keepdims": 0}),
    "reduce_sum_noop": Case("ReduceSum", x(2, 3), ("reduce",), attributes={"noop_with_empty_axes": 1}),
    "reduce_l2": Case("ReduceL2", x(2, 3), ("reduce",), constants={"axes": ints(1)}),
    "reduce_log_sum_exp": Case("ReduceLogSumExp", x(2, 3), ("reduce",), constants={"axes": ints(1)}),
    "arg_max_last": Case("ArgMax", {"x": np.array([[1, 3, 3], [2, 2, 1]], F)}, ("arg_reduce",),
                         attributes={"axis": 1, "keepdims": 0, "select_last_index": 1}),
    "arg_min": Case("ArgMin", x(3, 4), ("arg_reduce",)),
    "softmax": Case("Softmax", x(2, 3, 4), ("softmax",), attributes={"axis": 1}),
    "softmax_opset_11_flattens": Case("Softmax", x(2, 3, 4), ("flatten", "softmax", "shape", "reshape"), 11),
    "softmax_opset_11_last_axis": Case("Softmax", x(2, 3), ("softmax",), 11),
    "softmax_opset_11_negative_axis": Case("Softmax", x(2, 3, 4), ("flatten", "softmax", "shape", "reshape"), 11,
                                           attributes={"axis": -2}),
    "log_softmax": Case("LogSoftmax", x(2, 3), ("softmax",)),
    "layer_norm": Case("LayerNormalization", x(2, 3, 4), ("layer_norm",), constants={"s": normal(4), "b": normal(4)}),
    "layer_norm_without_bias": Case("LayerNormalization", x(2, 3, 4), ("layer_norm",), constants={"s": normal(3, 4)},
                                    attributes={"axis": 1, "epsilon": 0.01}),
    "layer_norm_with_statistics": Case("LayerNormalization", x(2, 3, 4), ("onnx_op",), outputs=3, constants={"s": normal(4)}),
    "batch_norm": Case("BatchNormalization", x(2, 3, 4, 5), ("batch_norm",), attributes={"epsilon": 0.01},
                       constants={"s": normal(3), "b": normal(3, seed=1), "m": normal(3, seed=2), "v": np.abs(normal(3, seed=3))}),
    "batch_norm_opset_7_not_spatial": Case("BatchNormalization", x(2, 3, 4), ("pointwise",), 7, attributes={"spatial": 0},
                                           constants={"s": normal(3, 4), "b": normal(3, 4, seed=1), "m": normal(3, 4, seed=2),
                                                      "v": np.abs(normal(3, 4, seed=3))}),
    "instance_norm": Case("InstanceNormalization", x(2, 3, 4, 5), ("instance_norm",), constants={"s": normal(3), "b": normal(3)}),
    "lrn": Case("LRN", x(1, 7, 3, 2), LRN, attributes={"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 2.0}),
    "lrn_unknown_sizes": Case("LRN", x(2, 5, 3, 1), LRN, attributes={"size": 5}, declared=False),
    # movement
    "transpose": Case("Transpose", x(2, 3, 4), ("transpose",), attributes={"perm": [2, 0, 1]}),
    "transpose_reverses": Case("Transpose", x(2, 3, 4), ("transpose",)),
    "concat": Case("Concat", {"a": normal(2, 3), "b": normal(2, 1)}, ("concat",), attributes={"axis": -1}),
    "split_attribute": Case("Split", x(6, 2), ("split",), 11, outputs=2, attributes={"split": [2, 4]}),
    "split_constant": Case("Split", x(2, 6), ("split",), outputs=2, constants={"n": ints(1, 5)}, attributes={"axis": 1}),
    "split_even": Case("Split", x(6, 2), ("split",), 13, outputs=3),
    "split_uneven": Case("Split", x(7, 2), ("split",), outputs=3, attributes={"num_outputs": 3}),
    "slice_attributes": Case("Slice", x(5, 6), ("slice",), 9, attributes={"starts": [1, -4], "ends": [4, 100], "axes": [0, 1]}),
    "slice_attributes_no_axes": Case("Slice", x(5, 6), ("slice",), 9, attributes={"starts": [1], "ends": [4]}),
    "slice_negative_step": Case("Slice", x(5, 6), ("slice",), constants={"s": ints(-1), "e": ints(-100), "a": ints(1), "t": ints(-2)}),
    "slice_steps_without_axes": Case("Slice", x(5, 6), ("slice",), constants={"s": ints(0, 1), "e": ints(5, 6), "t": ints(2, 3)},
                                     order=("x", "s", "e", "", "t")),
    "pad_attributes": Case("Pad", x(2, 3), ("pad",), 9, attributes={"pads": [0, 1, 2, 1], "value": 1.5}),
    "pad_constant": Case("Pad", x(2, 3), ("pad",), constants={"p": ints(0, 1, 2, 1), "v": np.array(2, F)}),
    "pad_axes": Case("Pad", x(2, 3), ("pad",), constants={"p": ints(1, 2), "a": ints(-1)}, order=("x", "p", "", "a")),
    "pad_reflect": Case("Pad", x(4, 5), ("pad",), constants={"p": ints(1, 2, 2, 1)}, attributes={"mode": "reflect"}),
    "pad_computed": Case("Pad", {**x(2, 3), "p": ints(0, 1, 2, 1)}, ("pad",)),
    "expand": Case("Expand", x(3, 1), ("expand",), constants={"s": ints(2, 1, 4)}),
    "tile": Case("Tile", x(2, 3), ("tile",), constants={"r": ints(2, 1)}),
    "gather_negative": Case("Gather", x(5, 3), ("gather",), constants={"i": np.array([[0, -1], [2, 1]])}),
    "depth_to_space_crd": Case("DepthToSpace", x(1, 8, 2, 3), ("depth_to_space",), attributes={"blocksize": 2, "mode": "CRD"}),
    "space_to_depth": Case("SpaceToDepth", x(1, 2, 4, 6), ("space_to_depth",), attributes={"blocksize": 2}),
    # resize
    "resize_scales": Case("Resize", x(1, 2, 3, 4), ("resize",), constants={"s": np.array([1, 1, 2, 1.5], F)}, order=("x", "", "s")),
    "resize_sizes_linear": Case("Resize", x(1, 2, 3, 4), ("resize",), constants={"n": ints(1, 2, 5, 7)}, order=("x", "", "", "n"),
                                attributes={"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "resize_cubic": Case("Resize", x(1, 1, 4, 4), ("resize",), constants={"s": np.array([1, 1, 2, 2], F)}, order=("x", "", "s"),
                         attributes={"mode": "cubic"}),
    "resize_opset_10_down": Case("Resize", x(1, 1, 6, 8), ("resize",), 10, constants={"s": np.array([1, 1, 0.5, 0.75], F)}),
    "resize_opset_10_up": Case("Resize", x(1, 1, 3, 4), ("resize",), 10, constants={"s": np.array([1, 1, 2, 1.6], F)}),
    "resize_opset_11_empty_roi": Case("Resize", x(1, 1, 3, 4), ("resize",), 11, order=("x", "r", "s"),
                                      constants={"r": np.zeros(0, F), "s": np.array([1, 1, 2, 2], F)}),
    "upsample_opset_7": Case("Upsample", x(1, 1, 3, 4), ("resize",), 7, attributes={"scales": [1.0, 1.0, 2.0, 3.0]}),
    "upsample_opset_9_linear": Case("Upsample", x(1, 1, 3, 4), ("resize",), 9, constants={"s": np.array([1, 1, 2, 2], F)},
                                    attributes={"mode": "linear"}),
    # shapes
    "reshape_zero_and_rest": Case("Reshape", x(2, 3, 4), ("reshape",), constants={"s": ints(0, -1)}),
    "reshape_computed": Case("Reshape", {**x(2, 6), "s": ints(3, 4)}, ("reshape",)),
    "flatten_axis_0": Case("Flatten", x(2, 3, 4), ("flatten",), attributes={"axis": 0}),
    "squeeze_attribute": Case("Squeeze", x(1, 3, 1), ("squeeze",), 11, attributes={"axes": [0]}),
    "squeeze_constant": Case("Squeeze", x(1, 3, 1), ("squeeze",), constants={"a": ints(-1)}),
    "squeeze_all": Case("Squeeze", x(1, 3, 1), ("squeeze",)),
    "unsqueeze_attribute": Case("Unsqueeze", x(3), ("unsqueeze",), 11, attributes={"axes": [0, 2]}),
    "unsqueeze_constant": Case("Unsqueeze", x(3), ("unsqueeze",), constants={"a": ints(-1, 0)}),
    "identity": Case("Identity", x(3), ("identity",)),
    "dropout": Case("Dropout", x(3), ("identity",)),
    "dropout_opset_7_ratio": Case("Dropout", x(3), ("identity",), 7, attributes={"ratio": 0.3}),
    "shape": Case("Shape", x(2, 3), ("shape",)),
    "shape_part": Case("Shape", x(2, 3, 4), ("shape",), attributes={"start": -2, "end": 10}),
    "size": Case("Size", x(2, 3), ("size",)),
    "constant_of_shape": Case("ConstantOfShape", {"x": ints(2, 3)}, ("constant_of_shape",)),
    "constant_of_shape_int": Case("ConstantOfShape", {"x": ints(2)}, ("constant_of_shape",),
                                  attributes={"value": onnx.numpy_helper.from_array(ints(7))}),
    "range_down": Case("Range", {"a": np.array(5), "b": np.array(0), "c": np.array(-2)}, ("range",)),
    "range_float": Case("Range", {"a": np.array(0, F), "b": np.array(1, F), "c": np.array(0.3, F)}, ("range",)),
    "gather_elements_smaller": Case("GatherElements", x(3, 4), ("gather_elements",), constants={"i": np.array([[0, -1], [2, 1]])},
                                    attributes={"axis": 1}),
    "global_lp_pool": Case("GlobalLpPool", IMAGE, ("reduce",)),
    "global_lp_pool_3": Case("GlobalLpPool", IMAGE, ("pointwise", "reduce", "pointwise"), attributes={"p": 3}),
    "lp_norm_1": Case("LpNormalization", x(2, 3), ("reduce", "pointwise"), attributes={"p": 1}),
    "lp_norm_2_of_zeros": Case("LpNormalization", {"x": np.zeros((2, 3), F)}, ("reduce", "pointwise"), attributes={"axis": 0}),
    "hardmax_opset_11_flattens": Case("Hardmax", x(2, 3, 4), ("flatten", "onnx_op", "shape", "reshape"), 11),
    # recurrent
    "rnn": Case("RNN", SEQUENCE, ("recurrent",), constants={"w": normal(1, 4, 3), "r": normal(1, 4, 4)}, outputs=2,
                attributes={"hidden_size": 4}),
    "rnn_lengths_backwards": Case("RNN", SEQUENCE, ("recurrent",), order=("x", "w", "r", "", "l"), outputs=2,
                                  constants={"w": normal(1, 4, 3), "r": normal(1, 4, 4), "l": np.array([5, 3], np.int32)},
                                  attributes={"hidden_size": 4, "direction": "reverse"}),
    "gru": Case("GRU", SEQUENCE, ("recurrent",), outputs=2, attributes={"hidden_size": 4, "direction": "bidirectional"},
                constants={"w": normal(2, 12, 3), "r": normal(2, 12, 4), "b": normal(2, 24)}),
    "gru_linear_before_reset": Case("GRU", SEQUENCE, ("recurrent",), outputs=2,
                                    attributes={"hidden_size": 4, "linear_before_reset": 1},
                                    constants={"w": normal(1, 12, 3), "r": normal(1, 12, 4), "b": normal(1, 24)}),
    "lstm_everything": Case("LSTM", SEQUENCE, ("recurrent",), outputs=3, attributes={"hidden_size": 4, "direction": "bidirectional"},
                            constants={"w": normal(2, 16, 3), "r": normal(2, 16, 4), "b": normal(2, 32),
                                       "l": np.array([4, 5], np.int32), "h": normal(2, 2, 4), "c": normal(2, 2, 4, seed=1),
                                       "p": normal(2, 12)}),
    "lstm_activations_clip": Case("LSTM", SEQUENCE, ("recurrent",), outputs=3,
                                  constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)},
                                  attributes={"hidden_size": 4, "activations": ["HardSigmoid", "LeakyRelu", "ScaledTanh"],
                                              "activation_alpha": [0.3, 0.1, 1.5], "activation_beta": [0.4, 0.7], "clip": 0.5}),
    "lstm_coupled": Case("LSTM", SEQUENCE, ("recurrent",), outputs=3, attributes={"hidden_size": 4, "input_forget": 1},
                         constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)}),
    "lstm_only_last_states": Case("LSTM", SEQUENCE, ("recurrent",), outputs=3, attributes={"hidden_size": 4},
                                  constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)}),
    # no class of their own
    "hardmax": Case("Hardmax", x(2, 3), ("onnx_op",)),
    "cum_sum": Case("CumSum", x(2, 3), ("onnx_op",), constants={"a": np.array(1)}),
    "top_k": Case("TopK", x(2, 5), ("onnx_op",), outputs=2, constants={"k": ints(2)}),
    "non_zero": Case("NonZero", x(2, 3), ("onnx_op",)),
    "scatter_opset_9": Case("Scatter", {"x": normal(4, 3), "i": np.array([[1, 0, 2]]), "u": normal(1, 3)}, ("onnx_op",), 9),
}


def expected(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_outputs(graph: Graph, feeds: dict[str, Array], wanted: list[Array]) -> None:
    found = reference.run(graph, {name: feeds[name] for name in graph.inputs})
    for name, want in zip(graph.outputs, wanted, strict=True):
        assert found[name].shape == want.shape
        if want.dtype.kind == "O":
            assert found[name].astype(str).tolist() == want.astype(str).tolist()
            continue
        assert found[name].dtype == want.dtype
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ops_and_numbers(case: Case) -> None:
    proto = case.model()
    graph = import_model(proto)
    assert tuple(layer.op.name for layer in graph) == case.ops
    wanted = expected(proto, case.feeds)
    assert_outputs(graph, case.feeds, wanted)
    assert_outputs(specialise(graph, {name: array.shape for name, array in case.feeds.items()}), case.feeds, wanted)


LEGACY: dict[str, tuple[onnx.ModelProto, dict[str, Array], Array]] = {}
_A, _C = normal(2, 3, 4, 5), normal(3, 4, seed=1)
LEGACY["add_at_axis"] = (one_node("Add", {"a": _A, "b": _C}, opset=6, broadcast=1, axis=1), {"a": _A, "b": _C},
                         _A + _C[:, :, None])
LEGACY["mul_at_negative_axis"] = (one_node("Mul", {"a": _A, "b": _C}, opset=6, broadcast=1, axis=-3), {"a": _A, "b": _C},
                                  _A * _C[:, :, None])
LEGACY["sub_suffix"] = (one_node("Sub", {"a": _A, "b": _A[0, 0]}, opset=1, broadcast=1), {"a": _A, "b": _A[0, 0]},
                        _A - _A[0, 0])
LEGACY["prelu_channel_vector"] = (one_node("PRelu", {"a": _A, "b": _C[:, 0]}, opset=6), {"a": _A, "b": _C[:, 0]},
                                  np.where(_A < 0, _A * _C[:, :1, None], _A))
LEGACY["reshape_attribute"] = (one_node("Reshape", {"a": _A}, opset=1, shape=[0, -1]), {"a": _A}, _A.reshape(2, -1))
LEGACY["pad_paddings"] = (one_node("Pad", {"a": _C}, opset=1, paddings=[1, 0, 0, 2]), {"a": _C},
                          np.pad(_C, ((1, 0), (0, 2))))
LEGACY["concat_default_axis"] = (one_node("Concat", {"a": _C, "b": _C}, opset=1), {"a": _C, "b": _C},
                                 np.concatenate([_C, _C], 1))
LEGACY["cast_named_type"] = (one_node("Cast", {"a": _C}, opset=1, to="INT32"), {"a": _C}, _C.astype(np.int32))
LEGACY["upsample_factors"] = (one_node("Upsample", {"a": _A}, opset=1, height_scale=2.0, width_scale=3.0), {"a": _A},
                              _A.repeat(2, 2).repeat(3, 3))
LEGACY["gemm_broadcast"] = (one_node("Gemm", {"a": _C, "b": _C.T.copy(), "c": _C[:, 0]}, opset=6, broadcast=1),
                            {"a": _C, "b": _C.T.copy(), "c": _C[:, 0]}, _C @ _C.T + _C[:, 0])
LEGACY["batch_norm_consumed_inputs"] = (
    one_node("BatchNormalization", {"a": _A}, opset=1, constants={n: np.full(3, v, F) for n, v in zip("sbmv", (2, 1, 0, 1), strict=True)},
             consumed_inputs=[0, 0, 0, 1, 1], is_test=1, epsilon=0.0), {"a": _A}, _A * 2 + 1)


@pytest.mark.parametrize("proto, feeds, want", LEGACY.values(), ids=LEGACY.keys())
def test_operators_before_opset_7(proto: onnx.ModelProto, feeds: dict[str, Array], want: Array) -> None:
    graph = import_model(proto)
    assert all(layer.op.name != "onnx_op" for layer in graph)
    assert_outputs(graph, feeds, [want])


def test_unread_outputs_do_not_need_the_reference() -> None:
    node = onnx.helper.make_node("Dropout", ["x"], ["y", "mask"])
    pool = onnx.helper.make_node("MaxPool", ["y"], ["z", "indices"], kernel_shape=[2, 2])
    feeds = x(1, 1, 4, 4)
    graph = import_model(model([node, pool], feeds, ["z"], opset=11))
    assert [(layer.op.name, layer.outputs) for layer in graph] == [("identity", ("y",)), ("pool", ("z",))]


@pytest.mark.parametrize(
    "attributes, value",
    [
        ({"value_float": 1.5}, np.array(1.5, F)),
        ({"value_floats": [1.0, 2.0]}, np.array([1, 2], F)),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, ints(3, 4)),
        ({"value": onnx.numpy_helper.from_array(normal(2, 3))}, normal(2, 3)),
    ],
    ids=["float", "floats", "int", "ints", "tensor"],
)
def test_constant_forms(attributes: dict[str, Any], value: Array) -> None:
    graph = import_model(one_node("Constant", {}, **attributes))
    assert graph.layers == ()
    np.testing.assert_array_equal(graph.constants["y0"], value)
    assert graph.constants["y0"].dtype == value.dtype


def test_same_dropout_with_training_input_runs_in_the_reference() -> None:
    proto = one_node("Dropout", {**x(3), "r": np.array(0.0, F), "t": np.array(True)})
    assert [layer.op.name for layer in import_model(proto)] == ["onnx_op"]
