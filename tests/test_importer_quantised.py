"""Quantised operators of ONNX and of onnxruntime's own domain, held against onnxruntime.

Integer results may differ by one step in few elements, where the exact value lies next to the middle between two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from softneuro import reference
from softneuro.importer.model import import_model
from softneuro.passes.pipeline import optimise
from softneuro.types import Array
from tests.onnx_build import one_node

F, U8, I8, I64 = np.float32, np.uint8, np.int8, np.int64
_RNG = np.random.default_rng(5)
MICROSOFT = "com.microsoft"
FEW = 0.05  # of the elements may differ by a step, and one more


def scalar(value: float, dtype: Any = F) -> Array:
    return np.array(value, dtype)


def integers(*shape: int, dtype: Any = U8) -> Array:
    limits = np.iinfo(dtype)
    return _RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scales(*shape: int) -> Array:
    return _RNG.uniform(0.01, 0.05, shape).astype(F)


def normal(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(F)


Inputs = dict[str, Array]
LINEAR: dict[str, tuple[str, Inputs, dict[str, Any]]] = {
    "quantise_u8": ("QuantizeLinear", {"x": 9 * normal(3, 50), "s": scalar(0.05), "z": scalar(3, U8)}, {}),
    "quantise_i8": ("QuantizeLinear", {"x": 9 * normal(3, 50), "s": scalar(0.05), "z": scalar(-3, I8)}, {}),
    "quantise_ties": ("QuantizeLinear", {"x": np.arange(-20, 20, 0.5, F), "s": scalar(1), "z": scalar(7, U8)}, {}),
    "quantise_no_zero": ("QuantizeLinear", {"x": 9 * normal(3, 50), "s": scalar(0.05)}, {}),
    "quantise_axis": ("QuantizeLinear", {"x": normal(2, 4, 5), "s": scales(4), "z": integers(4)}, {"axis": 1}),
    "quantise_i16": ("QuantizeLinear", {"x": normal(50), "s": scalar(1e-4), "z": scalar(5, np.int16)}, {}),
    "quantise_blocks": ("QuantizeLinear",
        {"x": normal(4, 6), "s": scales(2, 6), "z": integers(2, 6)}, {"axis": 0, "block_size": 2}),
    "dequantise_u8": ("DequantizeLinear", {"x": integers(3, 50), "s": scalar(0.05), "z": scalar(128, U8)}, {}),
    "dequantise_i32": ("DequantizeLinear", {"x": integers(50, dtype=np.int32), "s": scalar(0.05)}, {}),
    "dequantise_axis": ("DequantizeLinear",
        {"x": integers(2, 4, 5, dtype=I8), "s": scales(4), "z": integers(4, dtype=I8)}, {"axis": -2}),
    "dequantise_one_element": ("DequantizeLinear", {"x": integers(2, 4), "s": scales(1), "z": integers(1)}, {}),
    "dequantise_half": ("DequantizeLinear", {"x": integers(9, 4), "s": scalar(0.03, np.float16), "z": scalar(9, U8)}, {}),
    "dequantise_blocks": ("DequantizeLinear",
        {"x": integers(4, 6), "s": scales(4, 3), "z": integers(4, 3)}, {"axis": 1, "block_size": 2}),
    "conv": ("QLinearConv", {
        "x": integers(1, 3, 8, 9), "xs": scalar(0.02), "xz": scalar(120, U8), "w": integers(4, 3, 3, 3, dtype=I8),
        "ws": scales(4), "wz": np.zeros(4, I8), "ys": scalar(0.9), "yz": scalar(100, U8),
        "b": integers(4, dtype=np.int16).astype(np.int32)}, {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "conv_one_scale": ("QLinearConv", {
        "x": integers(2, 4, 7), "xs": scalar(0.02), "xz": scalar(0, U8), "w": integers(4, 2, 3),
        "ws": scalar(0.03), "wz": scalar(90, U8), "ys": scalar(0.9), "yz": scalar(100, U8)}, {"group": 2}),
    "matmul": ("QLinearMatMul", {
        "a": integers(2, 5, 8), "as": scalar(0.02), "az": scalar(113, U8), "b": integers(8, 6, dtype=I8), "bs": scales(6),
        "bz": np.zeros(6, I8), "ys": scalar(0.3), "yz": scalar(118, U8)}, {}),
    "matmul_integer": ("MatMulInteger",
        {"a": integers(2, 5, 600), "b": integers(600, 6), "az": scalar(12, U8), "bz": integers(6)}, {}),
    "matmul_integer_no_zeros": ("MatMulInteger", {"a": integers(5, 70), "b": integers(70, 6, dtype=I8)}, {}),
    "dynamic": ("DynamicQuantizeLinear", {"x": normal(3, 40)}, {}),
    "dynamic_positive": ("DynamicQuantizeLinear", {"x": np.abs(normal(3, 40)) + F(1)}, {}),
    "dynamic_zeros": ("DynamicQuantizeLinear", {"x": np.zeros(7, F)}, {}),
}  # fmt: skip
TWO = {"a": integers(2, 3, 4, 5), "as": scalar(0.03), "az": scalar(100, U8), "b": integers(3, 1, 5), "bs": scalar(0.02),
       "bz": scalar(130, U8), "ys": scalar(0.04), "yz": scalar(110, U8)}
ONE = {"x": integers(2, 3, 4, 4), "xs": scalar(0.03), "xz": scalar(100, U8), "ys": scalar(0.02), "yz": scalar(90, U8)}
CONTRIBUTED: dict[str, tuple[str, Inputs, dict[str, Any]]] = {
    "quantise": ("QuantizeLinear", {"x": normal(2, 4, 5), "s": scalar(0.02), "z": scalar(120, U8)}, {}),
    "dequantise_axis": ("DequantizeLinear", {"x": integers(2, 4, 5), "s": scales(4), "z": integers(4)}, {"axis": 1}),
    "add": ("QLinearAdd", TWO, {}),
    "mul": ("QLinearMul", TWO, {}),
    "sigmoid": ("QLinearSigmoid", {**ONE, "ys": scalar(1 / 256), "yz": scalar(0, U8)}, {}),
    "leaky_relu": ("QLinearLeakyRelu", ONE, {"alpha": 0.1}),
    "global_average": ("QLinearGlobalAveragePool", ONE, {}),
    "global_average_channels_last": ("QLinearGlobalAveragePool", ONE, {"channels_last": 1}),
    "average": ("QLinearAveragePool", ONE, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "softmax": ("QLinearSoftmax", {**ONE, "ys": scalar(1 / 256), "yz": scalar(0, U8)}, {"axis": -1}),
    "concat": ("QLinearConcat", {
        "ys": scalar(0.04), "yz": scalar(110, U8), "a": integers(2, 3), "as": scalar(0.03), "az": scalar(100, U8),
        "b": integers(2, 4), "bs": scalar(0.05), "bz": scalar(9, U8)}, {"axis": 1}),
    "where": ("QLinearWhere", {
        "c": integers(3, 4) > 100, "x": integers(3, 4), "xs": scalar(0.03), "xz": scalar(100, U8), "y": integers(3, 4),
        "ys": scalar(0.02), "yz": scalar(90, U8), "zs": scalar(0.04), "zz": scalar(128, U8)}, {}),
    "gemm": ("QGemm", {
        "a": integers(5, 8), "as": scalar(0.02), "az": scalar(113, U8), "b": integers(6, 8, dtype=I8), "bs": scales(6),
        "bz": np.zeros(6, I8), "c": integers(6, dtype=np.int16).astype(np.int32), "ys": scalar(0.3), "yz": scalar(118, U8)},
        {"transB": 1}),
    "gemm_to_float": ("QGemm", {
        "a": integers(5, 8), "as": scalar(0.02), "az": scalar(113, U8), "b": integers(8, 6), "bs": scalar(0.01),
        "bz": scalar(7, U8)}, {}),
    "conv": ("QLinearConv", {
        "x": integers(1, 6, 7, 3), "xs": scalar(0.02), "xz": scalar(120, U8), "w": integers(4, 3, 3, 3, dtype=I8),
        "ws": scalar(0.02), "wz": scalar(0, I8), "ys": scalar(0.9), "yz": scalar(100, U8)}, {"channels_last": 1}),
    "dynamic_matmul": ("DynamicQuantizeMatMul", {
        "a": normal(2, 5, 8), "b": integers(8, 6, dtype=I8), "s": scales(6), "z": np.zeros(6, I8), "bias": normal(6)}, {}),
    "matmul_to_float": ("MatMulIntegerToFloat", {
        "a": integers(5, 8), "b": integers(8, 6), "as": scalar(0.02), "bs": scalar(0.03), "az": scalar(99, U8),
        "bz": scalar(120, U8), "bias": normal(6)}, {}),
}  # fmt: skip


def expected(proto: onnx.ModelProto, feeds: Inputs) -> list[Array]:
    """onnxruntime's outputs on one thread: with more, its LSTM finds a range for each thread's share of a batch."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(proto.SerializeToString(), options).run(None, feeds))


def compare(proto: onnx.ModelProto, feeds: Inputs) -> None:
    graph = import_model(proto)
    graph.verify()
    wanted = expected(proto, feeds)
    for form in (graph, optimise(graph)):
        found = reference.run(form, {name: feeds[name] for name in form.inputs})
        for name, want in zip(form.outputs, wanted, strict=True):
            assert (found[name].shape, found[name].dtype) == (want.shape, want.dtype)
            if want.dtype.kind == "f":
                rtol = 1e-3 if want.itemsize == 2 else 2e-5
                np.testing.assert_allclose(found[name].astype(F), want.astype(F), rtol=rtol, atol=1e-5)
                continue
            steps = np.abs(found[name].astype(I64) - want.astype(I64))
            assert steps.max(initial=0) <= 1
            assert np.sum(steps > 0) <= FEW * steps.size + 1


def split(inputs: Inputs) -> tuple[Inputs, Inputs]:
    """The first tensor of elements is fed; what describes it, and weights, are constants."""
    fed = next(name for name, value in inputs.items() if value.ndim)
    return {fed: inputs[fed]}, {name: value for name, value in inputs.items() if name != fed}


@pytest.mark.parametrize("stored", [True, False], ids=["constants", "all_fed"])
@pytest.mark.parametrize("name", LINEAR)
def test_operators_of_onnx(name: str, stored: bool) -> None:
    op_type, inputs, attributes = LINEAR[name]
    feeds, constants = split(inputs) if stored else (inputs, {})
    outputs = 3 if op_type == "DynamicQuantizeLinear" else 1
    compare(one_node(op_type, feeds, constants=constants, order=list(inputs), opset=21, outputs=outputs, **attributes), feeds)


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_older_dequantisation(opset: int) -> None:
    feeds = {"x": integers(3, 5, dtype=I8)}
    constants = {"s": scalar(0.1), "z": scalar(4, I8)}
    compare(one_node("DequantizeLinear", feeds, constants=constants, opset=opset), feeds)


@pytest.mark.parametrize("name", CONTRIBUTED)
def test_operators_of_onnxruntime(name: str) -> None:
    op_type, inputs, attributes = CONTRIBUTED[name]
    feeds, constants = split(inputs)
    proto = one_node(op_type, feeds, constants=constants, order=list(inputs), domain=MICROSOFT, **attributes)
    if op_type == "QLinearSoftmax":
        proto.graph.node[0].attribute.append(onnx.helper.make_attribute("opset", 13))
    compare(proto, feeds)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_stored_weights_of_four_bits(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype))
    weights = _RNG.integers(0, 7, (4, 6)).astype(I8).astype(kind)
    constants = {"w": weights, "s": scales(6), "z": np.ones(6, I8).astype(kind)}
    proto = one_node("DequantizeLinear", {}, constants=constants, opset=21, axis=1)
    proto.ir_version = 10
    compare(proto, {})


@pytest.mark.parametrize("columns", [False, True], ids=["scale_of_direction", "scale_of_column"])
@pytest.mark.parametrize("weights", ["symmetric", "with_zero_points", "with_zero_points_and_lengths"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm(direction: str, weights: str, columns: bool) -> None:
    kind, zero = (I8, 0) if weights == "symmetric" else (U8, 7)
    d, hidden, c = 2 if direction == "bidirectional" else 1, 5, 7
    per = (d, 4 * hidden) if columns else (d,)
    feeds = {"x": normal(6, 2, c)}
    constants = {
        "w": integers(d, c, 4 * hidden, dtype=kind), "r": integers(d, hidden, 4 * hidden, dtype=kind),
        "b": normal(d, 8 * hidden), "l": np.array([6, 3], np.int32), "h": normal(d, 2, hidden), "c": normal(d, 2, hidden),
        "ws": scales(*per) / 4, "wz": np.full(per, zero, kind), "rs": scales(*per) / 4, "rz": np.full(per, zero, kind),
    }  # fmt: skip
    order = ["x", "w", "r", "b", "l" if weights.endswith("lengths") else "", "h", "c", "", "ws", "wz", "rs", "rz"]
    compare(one_node("DynamicQuantizeLSTM", feeds, constants=constants, order=order, outputs=3, domain=MICROSOFT,
                     hidden_size=hidden, direction=direction), feeds)
