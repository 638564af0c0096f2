"""Reductions, Softmax, normalisations and recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.importer_cases import Case, F, check, ints, x
from tests.onnx_build import normal

IMAGE = x(1, 3, 7, 6)

LRN = ("pointwise", "reshape", "unsqueeze", "pool", "shape", "reshape", "pointwise")

SEQUENCE = x(5, 2, 3)

CASES: dict[str, Case] = {
    # reductions and normalisations
    "reduce_mean_axes_attribute": Case("ReduceMean", x(2, 3, 4), ("reduce",), 13, attributes={"axes": [1, -1], "keepdims": 0}),
    "reduce_mean_axes_constant": Case("ReduceMean", x(2, 3, 4), ("reduce",), constants={"axes": ints(1)}),
    "reduce_sum_axes_computed": Case("ReduceSum", {**x(2, 3, 4), "axes": ints(0, 2)}, ("reduce",)),
    "reduce_sum_no_axes": Case("ReduceSum", x(2, 3), ("reduce",), attributes={"keepdims": 0}),
    "reduce_sum_noop": Case("ReduceSum", x(2, 3), ("reduce",), attributes={"noop_with_empty_axes": 1}),
    "reduce_l2": Case("ReduceL2", x(2, 3), ("reduce",), constants={"axes": ints(1)}),
    "reduce_log_sum_exp": Case("ReduceLogSumExp", x(2, 3), ("reduce", "pointwise", "reduce", "pointwise"),
                               constants={"axes": ints(1)}),
    "arg_max_last": Case(
        "ArgMax",
        {"x": np.array([[1, 3, 3], [2, 2, 1]], F)},
        ("arg_reduce",),
        attributes={"axis": 1, "keepdims": 0, "select_last_index": 1},
    ),
    "arg_min": Case("ArgMin", x(3, 4), ("arg_reduce",)),
    "softmax": Case("Softmax", x(2, 3, 4), ("softmax",), attributes={"axis": 1}),
    "softmax_opset_11_flattens": Case("Softmax", x(2, 3, 4), ("flatten", "softmax", "shape", "reshape"), 11),
    "softmax_opset_11_last_axis": Case("Softmax", x(2, 3), ("softmax",), 11),
    "softmax_opset_11_negative_axis": Case(
        "Softmax", x(2, 3, 4), ("flatten", "softmax", "shape", "reshape"), 11, attributes={"axis": -2}
    ),
    "log_softmax": Case("LogSoftmax", x(2, 3), ("softmax",)),
    "layer_norm": Case("LayerNormalization", x(2, 3, 4), ("layer_norm",), constants={"s": normal(4), "b": normal(4)}),
    "layer_norm_without_bias": Case(
        "LayerNormalization",
        x(2, 3, 4),
        ("layer_norm",),
        constants={"s": normal(3, 4)},
        attributes={"axis": 1, "epsilon": 0.01},
    ),
    "reduce_log_sum_exp_dropped": Case("ReduceLogSumExp", x(2, 3), ("reduce", "pointwise", "reduce", "pointwise", "reduce"),
                                       constants={"axes": ints(1)}, attributes={"keepdims": 0}),
    "layer_norm_with_statistics": Case(
        "LayerNormalization", x(2, 3, 4), ("layer_norm", "reduce", "pointwise", "reduce", "pointwise"), outputs=3,
        constants={"s": normal(4)}),
    "batch_norm": Case(
        "BatchNormalization",
        x(2, 3, 4, 5),
        ("batch_norm",),
        attributes={"epsilon": 0.01},
        constants={"s": normal(3), "b": normal(3, seed=1), "m": normal(3, seed=2), "v": np.abs(normal(3, seed=3))},
    ),
    "batch_norm_opset_7_not_spatial": Case(
        "BatchNormalization",
        x(2, 3, 4),
        ("pointwise",),
        7,
        attributes={"spatial": 0},
        constants={
            "s": normal(3, 4),
            "b": normal(3, 4, seed=1),
            "m": normal(3, 4, seed=2),
            "v": np.abs(normal(3, 4, seed=3)),
        },
    ),
    "instance_norm": Case("InstanceNormalization", x(2, 3, 4, 5), ("instance_norm",), constants={"s": normal(3), "b": normal(3)}),
    "lrn": Case("LRN", x(1, 7, 3, 2), LRN, attributes={"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 2.0}),
    "lrn_unknown_sizes": Case("LRN", x(2, 5, 3, 1), LRN, attributes={"size": 5}, declared=False),
    "global_lp_pool": Case("GlobalLpPool", IMAGE, ("reduce",)),
    "global_lp_pool_3": Case("GlobalLpPool", IMAGE, ("pointwise", "reduce", "pointwise"), attributes={"p": 3}),
    "lp_norm_1": Case("LpNormalization", x(2, 3), ("reduce", "pointwise"), attributes={"p": 1}),
    "lp_norm_2_of_zeros": Case("LpNormalization", {"x": np.zeros((2, 3), F)}, ("reduce", "pointwise"), attributes={"axis": 0}),
    "hardmax_opset_11_flattens": Case("Hardmax", x(2, 3, 4), ("flatten", "onnx_op", "shape", "reshape"), 11),
    # recurrent
    "rnn": Case(
        "RNN",
        SEQUENCE,
        ("recurrent",),
        constants={"w": normal(1, 4, 3), "r": normal(1, 4, 4)},
        outputs=2,
        attributes={"hidden_size": 4},
    ),
    "rnn_lengths_backwards": Case(
        "RNN",
        SEQUENCE,
        ("recurrent",),
        order=("x", "w", "r", "", "l"),
        outputs=2,
        constants={"w": normal(1, 4, 3), "r": normal(1, 4, 4), "l": np.array([5, 3], np.int32)},
        attributes={"hidden_size": 4, "direction": "reverse"},
    ),
    "gru": Case(
        "GRU",
        SEQUENCE,
        ("recurrent",),
        outputs=2,
        attributes={"hidden_size": 4, "direction": "bidirectional"},
        constants={"w": normal(2, 12, 3), "r": normal(2, 12, 4), "b": normal(2, 24)},
    ),
    "gru_linear_before_reset": Case(
        "GRU",
        SEQUENCE,
        ("recurrent",),
        outputs=2,
        attributes={"hidden_size": 4, "linear_before_reset": 1},
        constants={"w": normal(1, 12, 3), "r": normal(1, 12, 4), "b": normal(1, 24)},
    ),
    "lstm_everything": Case(
        "LSTM",
        SEQUENCE,
        ("recurrent",),
        outputs=3,
        attributes={"hidden_size": 4, "direction": "bidirectional"},
        constants={
            "w": normal(2, 16, 3),
            "r": normal(2, 16, 4),
            "b": normal(2, 32),
            "l": np.array([4, 5], np.int32),
            "h": normal(2, 2, 4),
            "c": normal(2, 2, 4, seed=1),
            "p": normal(2, 12),
        },
    ),
    "lstm_activations_clip": Case(
        "LSTM",
        SEQUENCE,
        ("recurrent",),
        outputs=3,
        constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)},
        attributes={
            "hidden_size": 4,
            "activations": ["HardSigmoid", "LeakyRelu", "ScaledTanh"],
            "activation_alpha": [0.3, 0.1, 1.5],
            "activation_beta": [0.4, 0.7],
            "clip": 0.5,
        },
    ),
    "lstm_coupled": Case(
        "LSTM",
        SEQUENCE,
        ("recurrent",),
        outputs=3,
        attributes={"hidden_size": 4, "input_forget": 1},
        constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)},
    ),
    "lstm_only_last_states": Case(
        "LSTM",
        SEQUENCE,
        ("recurrent",),
        outputs=3,
        attributes={"hidden_size": 4},
        constants={"w": normal(1, 16, 3), "r": normal(1, 16, 4)},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ops_and_numbers(case: Case) -> None:
    check(case)
