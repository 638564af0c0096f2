"""Tensors without elements: nothing is launched for an empty output, and empty inputs give what the reference gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_build import model, one_node

import softneuro
from softneuro import reference
from softneuro.codegen.target import host
from softneuro.importer.model import import_model
from softneuro.ops.adapt import Adapt
from softneuro.ops.matmul import MatMul
from softneuro.ops.reduce import Reduce
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates, refusal, rejections, stored_dtypes
from softneuro.types import Array, DType, TensorType

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def normal(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def conv_net(batch: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Convolutions of every kind between an image and class scores, for any batch and size."""
    def node(op_type: str, *inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [output], **attributes)

    nodes = [
        node("Conv", "x", "w0", "b0", output="a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", output="b"),
        node("Conv", "b", "w1", output="c", pads=[1, 1, 1, 1], group=8),
        node("Conv", "c", "w2", output="d", pads=[1, 1, 1, 1]),
        node("MaxPool", "d", output="e", kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", "e", "w3", output="f", strides=[2, 2]),
        node("Add", "f", "d", output="g"),
        node("GlobalAveragePool", "g", output="h"),
        node("Flatten", "h", output="i"),
        node("Gemm", "i", "w4", output="j"),
        node("Softmax", "j", output="y"),
    ]
    constants = {"w0": normal(8, 3, 3, 3), "b0": normal(8), "w1": normal(8, 1, 3, 3), "w2": normal(8, 8, 3, 3),
                 "w3": normal(8, 8, 2, 2), "w4": normal(8, 5)}
    feeds = {"x": normal(batch, 3, 8, 8)}
    return model(nodes, feeds, ["y"], constants=constants, declared=False), feeds


def one(op_type: str, feeds: Mapping[str, Array], **options: Any) -> tuple[onnx.ModelProto, Mapping[str, Array]]:
    return one_node(op_type, feeds, declared=False, **options), feeds


def slice_and_join() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A split with an empty part, which a channels-last neighbour may have made, joined again with what has elements."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Split", ["c", "sizes"], ["none", "some"], axis=1),
        helper.make_node("Relu", ["none"], ["r"]),
        helper.make_node("Concat", ["r", "some", "none"], ["y"], axis=1),
    ]
    feeds = {"x": normal(1, 8, 6, 6)}
    constants = {"w": normal(8, 8, 3, 3), "sizes": np.array([0, 8])}
    return model(nodes, feeds, ["y", "none"], constants=constants, declared=False), feeds


CASES: dict[str, Callable[[], tuple[onnx.ModelProto, Mapping[str, Array]]]] = {
    "conv_net_of_no_images": lambda: conv_net(0),
    "conv_of_padding_only": lambda: one("Conv", {"x": zeros(1, 2, 0, 3)}, constants={"w": normal(4, 2, 3, 3)}, pads=[2, 1, 2, 1]),
    "conv_of_no_channels": lambda: one("Conv", {"x": zeros(1, 0, 4, 4)}, constants={"w": zeros(3, 0, 3, 3), "b": normal(3)}),
    "conv_to_no_filters": lambda: one("Conv", {"x": normal(1, 3, 4, 4)}, constants={"w": zeros(0, 3, 3, 3)}),
    "conv_transpose_of_no_columns": lambda: one("ConvTranspose", {"x": zeros(1, 2, 3, 0)}, constants={"w": normal(2, 3, 2, 2)}),
    "concat_with_an_empty_part": lambda: one("Concat", {"x": zeros(2, 0, 3), "z": normal(2, 4, 3)}, axis=1),
    "concat_of_empty_parts": lambda: one("Concat", {"x": zeros(2, 0, 3), "z": zeros(2, 0, 3)}, axis=1),
    "split_with_an_empty_part": slice_and_join,
    "slice_of_nothing": lambda: one("Slice", {"x": normal(3, 4)}, constants={"s": np.array([2]), "e": np.array([2])}),
    "pad_an_empty_axis": lambda: one("Pad", {"x": zeros(2, 0)}, constants={"p": np.array([0, 1, 0, 2]), "v": np.float32(3)}),
    "matmul_of_no_rows": lambda: one("MatMul", {"x": zeros(0, 4)}, constants={"w": normal(4, 3)}),
    "matmul_to_no_columns": lambda: one("MatMul", {"x": normal(2, 4)}, constants={"w": zeros(4, 0)}),
    "matmul_of_an_empty_sum": lambda: one("MatMul", {"x": zeros(2, 0)}, constants={"w": zeros(0, 3)}),
    "matmul_of_no_batches": lambda: one("MatMul", {"x": zeros(0, 2, 4), "z": zeros(0, 4, 3)}),
    "gemm_of_an_empty_sum": lambda: one("Gemm", {"x": zeros(2, 0)}, constants={"w": zeros(0, 3), "b": normal(3)}),
    "reduce_sum_of_nothing": lambda: one("ReduceSum", {"x": zeros(3, 0)}, constants={"axes": np.array([1])}),
    "reduce_max_of_no_lines": lambda: one("ReduceMax", {"x": zeros(0, 3)}, constants={"axes": np.array([1])}),
    "reduce_mean_of_nothing": lambda: one("ReduceMean", {"x": zeros(0, 3)}, constants={"axes": np.array([0])}),
    "max_pool_of_no_images": lambda: one("MaxPool", {"x": zeros(0, 3, 4, 4)}, kernel_shape=[2, 2]),
    "average_pool_of_no_channels": lambda: one("AveragePool", {"x": zeros(2, 0, 4, 4)}, kernel_shape=[2, 2]),
    "max_pool_of_padding_only": lambda: one("MaxPool", {"x": zeros(1, 2, 0, 4)}, kernel_shape=[2, 2], pads=[1, 0, 1, 0]),
    "global_average_of_no_pixels": lambda: one("GlobalAveragePool", {"x": zeros(1, 3, 0, 4)}),
    "global_maximum_of_no_pixels": lambda: one("GlobalMaxPool", {"x": zeros(1, 3, 0, 4)}),
    "softmax_of_no_columns": lambda: one("Softmax", {"x": zeros(2, 0)}),
    "layer_norm_of_no_rows": lambda: one("LayerNormalization", {"x": zeros(0, 4)}, constants={"s": normal(4)}),
    "layer_norm_of_no_columns": lambda: one("LayerNormalization", {"x": zeros(3, 0)}, constants={"s": zeros(0)}),
    "instance_norm_of_no_pixels": lambda: one("InstanceNormalization", {"x": zeros(1, 2, 0)},
                                              constants={"s": normal(2), "b": normal(2)}),
    "batch_norm_of_no_images": lambda: one("BatchNormalization", {"x": zeros(0, 2, 3)},
                                           constants={n: np.abs(normal(2)) for n in "abcd"}),
    "gather_no_rows": lambda: one("Gather", {"x": normal(3, 4), "i": np.zeros((0,), np.int64)}),
    "gather_from_no_columns": lambda: one("Gather", {"x": zeros(3, 0), "i": np.array([1, 2])}),
    "broadcast_to_nothing": lambda: one("Add", {"x": normal(1, 3), "z": zeros(0, 3)}),
    "expand_to_nothing": lambda: one("Expand", {"x": normal(1, 3)}, constants={"s": np.array([0, 3])}),
    "tile_no_times": lambda: one("Tile", {"x": normal(2, 3)}, constants={"r": np.array([0, 2])}),
    "transpose_of_nothing": lambda: one("Transpose", {"x": zeros(2, 0, 3)}, perm=[2, 1, 0]),
    "depth_to_space_of_no_columns": lambda: one("DepthToSpace", {"x": zeros(1, 8, 3, 0)}, blocksize=2),
    "reshape_of_nothing": lambda: one("Reshape", {"x": zeros(2, 0)}, constants={"s": np.array([0, 7])}, allowzero=1),
    "resize_of_no_images": lambda: one("Resize", {"x": zeros(0, 3, 4, 4)}, constants={"s": np.array([1, 1, 2, 2], np.float32)},
                                       order=["x", "", "s"], mode="linear"),
    "argmax_of_no_lines": lambda: one("ArgMax", {"x": zeros(0, 3)}, axis=1),
    **{f"{name}_of_nothing": lambda name=name: one(name, {"x": zeros(2, 0, 3)}) for name in (
        "Abs", "Cos", "Elu", "Erf", "Exp", "Gelu", "HardSwish", "IsNaN", "LogSoftmax", "Mish", "Relu", "Round", "Sigmoid", "Sign",
        "Softplus", "Sqrt", "Tanh", "Identity", "Shape", "Size", "NonZero", "Flatten")},
    **{f"{name}_of_no_rows": lambda name=name: one(name, {"x": zeros(0, 3), "z": normal(1, 3)}) for name in (
        "Sub", "Mul", "Div", "Pow", "Max", "Min", "Less", "Equal", "PRelu")},
    **{f"{name}_over_no_elements": lambda name=name: one(name, {"x": zeros(3, 0)}, constants={"axes": np.array([1])})
       for name in ("ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")},
    "clip_of_nothing": lambda: one("Clip", {"x": zeros(0, 5)}, constants={"low": np.float32(0), "high": np.float32(6)}),
    "where_of_nothing": lambda: one("Where", {"c": np.zeros((0, 3), bool), "x": normal(1, 3), "z": zeros(0, 3)}),
    "cast_of_nothing": lambda: one("Cast", {"x": zeros(3, 0)}, to=onnx.TensorProto.INT64),
    "cumulative_sum_of_no_rows": lambda: one("CumSum", {"x": zeros(0, 4)}, constants={"axis": np.array(1)}),
    "triangle_of_nothing": lambda: one("Trilu", {"x": zeros(0, 3, 3)}),
    "gather_no_elements": lambda: one("GatherElements", {"x": normal(3, 4), "i": np.zeros((0, 4), np.int64)}),
    "gather_no_slices": lambda: one("GatherND", {"x": normal(3, 4), "i": np.zeros((0, 1), np.int64)}),
    "scatter_no_slices": lambda: one("ScatterND", {"x": normal(3, 4), "i": np.zeros((0, 1), np.int64), "u": zeros(0, 4)}),
    "einsum_of_no_rows": lambda: one("Einsum", {"x": zeros(0, 4), "z": normal(4, 3)}, equation="ij,jk->ik"),
    "squeeze_nothing": lambda: one("Squeeze", {"x": zeros(0, 1, 3)}, constants={"axes": np.array([1])}),
    "unsqueeze_nothing": lambda: one("Unsqueeze", {"x": zeros(0, 3)}, constants={"axes": np.array([1])}),
    "space_to_depth_of_no_images": lambda: one("SpaceToDepth", {"x": zeros(0, 3, 4, 4)}, blocksize=2),
    "nearest_resize_of_no_channels": lambda: one("Resize", {"x": zeros(1, 0, 4, 4)}, order=["x", "", "s"],
                                                 constants={"s": np.array([1, 1, 2, 2], np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_equals_reference(case: Callable[[], tuple[onnx.ModelProto, Mapping[str, Array]]], threads: int) -> None:
    proto, feeds = case()
    shapes = {name: array.shape for name, array in feeds.items()}
    plan = softneuro.tune(proto, shapes=shapes, threads=threads, time_limit=0)
    found = softneuro.Session(plan).run(dict(feeds))
    for name, wanted in reference.run(import_model(proto), feeds).items():
        assert found[name].shape == wanted.shape and found[name].dtype == wanted.dtype
        np.testing.assert_allclose(found[name], wanted, **TOLERANCE)


def test_a_plan_made_for_images_runs_without_any() -> None:
    proto, feeds = conv_net(2)
    session = softneuro.Session(softneuro.tune(proto, shapes={"x": feeds["x"].shape}, threads=1, time_limit=0))
    assert session.run(conv_net(0)[1])["y"].shape == (0, 5)
    np.testing.assert_allclose(session.run(feeds)["y"], reference.run(import_model(proto), feeds)["y"], **TOLERANCE)


def test_a_plan_made_for_no_images_runs_with_some() -> None:
    proto, feeds = conv_net(2)
    session = softneuro.Session(softneuro.tune(proto, shapes={"x": (0, 3, 8, 8)}, threads=1, time_limit=0))
    np.testing.assert_allclose(session.run(feeds)["y"], reference.run(import_model(proto), feeds)["y"], **TOLERANCE)
    assert all(not placed.choice.routine.endswith(".empty") for placed in session.linked({"x": (2, 3, 8, 8)}).program.placed)


@pytest.mark.parametrize("name", ["split_with_an_empty_part", "concat_with_an_empty_part", "matmul_of_no_rows"])
def test_measuring_takes_empty_outputs(name: str) -> None:
    proto, feeds = CASES[name]()
    plan = softneuro.tune(proto, shapes={n: array.shape for n, array in feeds.items()}, threads=1)
    for output, wanted in reference.run(import_model(proto), feeds).items():
        np.testing.assert_allclose(softneuro.Session(plan).run(dict(feeds))[output], wanted, **TOLERANCE)


def matmul(rows: int) -> Problem:
    types = (TensorType(DType.F32, (rows, 4)), TensorType(DType.F32, (4, 3)))
    return Problem.of(MatMul(), types, (False, True))


def test_nothing_reads_and_launches_nothing() -> None:
    (only,) = candidates(matmul(0), host())
    assert (only.routine.name, str(only.signature)) == ("matmul.empty", "-,->f32:plain")
    assert only.routine.build(matmul(0), only.signature, {}, host()).launches == ()


def test_refusals_say_found_and_needed() -> None:
    reasons = {rejection.reason for rejection in rejections(matmul(0), host())}
    assert reasons == {"found f32[0,3], needed at least one element"}
    (only,) = candidates(matmul(0), host())
    assert refusal(only.routine, matmul(2), host()) == "found f32[2,3], needed no elements"


def test_converting_nothing_is_free() -> None:
    empty = TensorType(DType.F32, (2, 0, 3))
    problem = Problem.of(Adapt(), (empty,), (False,))
    found = candidates(problem, host())
    own = [candidate for candidate in found if not stored_dtypes(problem, candidate.signature)]
    assert {str(candidate.signature) for candidate in own} == {"f32:chf>f32:chl", "f32:chl>f32:chf"}
    assert all(c.routine.build(problem, c.signature, c.schedule, host()).alias == 0 for c in own)


def test_an_empty_sum_of_lines_is_left_to_the_reference() -> None:
    problem = Problem.of(Reduce("sum", (1,)), (TensorType(DType.F32, (3, 0)),), (False,))
    assert [candidate.routine.name for candidate in candidates(problem, host())] == ["reduce.reference"]
