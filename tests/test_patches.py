"""Patches under windows of any rank, stride and dilation, and the integer convolutions that are made of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from exact import assert_exact, problem_of
from oracle import execute, runnable_targets

import softneuro
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.importer.model import import_model
from softneuro.ops.conv import windows
from softneuro.ops.integer import IntegerMatMul
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.patches import Patches
from softneuro.plan.program import HostStep
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates
from softneuro.routines.patches import PATCHES_STRIDED_ANY
from softneuro.types import Array, TensorType
from tests.onnx_build import one_node

TARGETS = runnable_targets()
CASES: dict[str, tuple[Patches, Array]] = {
    "image": (Patches((3, 3), (1, 1), (1, 1)), np.arange(2 * 5 * 6 * 4, dtype=np.uint8).reshape(2, 5, 6, 4)),
    "strides": (Patches((3, 2), (2, 3), (1, 1)), np.arange(7 * 8 * 3, dtype=np.int8).reshape(1, 7, 8, 3)),
    "dilations": (Patches((2, 3), (1, 1), (3, 2)), np.arange(6 * 7 * 5, dtype=np.float32).reshape(1, 6, 7, 5)),
    "one_channel": (Patches((3, 3), (1, 1), (1, 1)), np.arange(30, dtype=np.uint8).reshape(1, 5, 6, 1)),
    "line": (Patches((4,), (1,), (1,)), np.arange(33.0).reshape(1, 11, 3)),
    "volume": (Patches((2, 2, 2), (1, 1, 1), (1, 1, 1)), np.arange(3 * 4 * 5 * 2, dtype=np.int16).reshape(1, 3, 4, 5, 2)),
    "single_elements": (Patches((1, 1), (1, 1), (1, 1)), np.arange(24, dtype=np.uint8).reshape(1, 3, 4, 2)),
    "single_elements_apart": (Patches((1, 1), (2, 2), (1, 1)), np.arange(24, dtype=np.uint8).reshape(1, 3, 4, 2)),
    "whole_image": (Patches((3, 4), (1, 1), (1, 1)), np.arange(24, dtype=np.uint8).reshape(1, 3, 4, 2)),
    "no_images": (Patches((3, 3), (1, 1), (1, 1)), np.zeros((0, 5, 6, 4), np.uint8)),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    op, x = CASES[name]
    assert_exact(PATCHES_STRIDED_ANY, op, (x,), target, threads)


def test_rows_hold_windows_with_channels_last() -> None:
    x = np.arange(2 * 3 * 2).reshape(1, 2, 3, 2)
    (y,) = Patches((2, 2), (1, 1), (1, 1)).reference((x,))
    assert y.shape == (1, 1, 2, 8)
    np.testing.assert_array_equal(y[0, 0, 1], x[0, :, 1:].reshape(-1))


def test_refusals_say_found_and_needed() -> None:
    op, x = CASES["image"]
    with pytest.raises(InputError, match=r"found u8\[5,6,4\], needed 2 spatial axes"):
        problem_of(op, x[0])
    with pytest.raises(InputError, match="axis 1 has 2 elements with padding, the kernel needs 3"):
        problem_of(op, x[:, :2])


# ConvInteger ------------------------------------------------------------------------------------------------------------


def exact_sums(x: Array, w: Array, x_zero: int, w_zero: Array | int, pads: int = 0, stride: int = 1) -> Array:
    """The convolution in int64."""
    padded = np.pad(x.astype(np.int64) - x_zero, [(0, 0), (0, 0), *[(pads, pads)] * (x.ndim - 2)])
    view = windows(padded, w.shape[2:], (stride,) * (x.ndim - 2), (1,) * (x.ndim - 2))
    filters = w.astype(np.int64) - np.reshape(w_zero, (-1, *(1,) * (w.ndim - 1)))
    last = view.transpose(0, *range(2, x.ndim), 1, *range(x.ndim, view.ndim))
    rows = last.reshape(len(x), *view.shape[2 : x.ndim], -1)
    return np.moveaxis(rows @ filters.reshape(len(w), -1).T, -1, 1)


def integer_conv(x: Array, w: Array, x_zero: int, w_zero: Array, pads: int, stride: int = 1) -> onnx.ModelProto:
    constants = {"w": w, "x_zero": np.array(x_zero, x.dtype), "w_zero": w_zero.astype(w.dtype)}
    spatial = x.ndim - 2
    return one_node("ConvInteger", {"x": x}, constants=constants, pads=[pads] * (2 * spatial), strides=[stride] * spatial)


def _signs(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).choice(np.array([-127, 127], np.int8), shape)


EXTREMES: dict[str, tuple[Array, Array, int, Array]] = {
    "largest": (np.full((1, 512, 4, 4), 255, np.uint8), np.full((3, 512, 3, 3), 127, np.int8), 0, np.array(0)),
    "smallest": (np.full((1, 512, 4, 4), 255, np.uint8), np.full((3, 512, 3, 3), -128, np.int8), 0, np.array(0)),
    "both_signs": (np.full((1, 512, 4, 4), 255, np.uint8), _signs((5, 512, 3, 3)), 3, np.array(1)),
    "unsigned_weights": (np.full((1, 512, 4, 4), 255, np.uint8), np.full((3, 512, 3, 3), 255, np.uint8), 0, np.array(0)),
    "zero_points_at_the_ends":
        (np.zeros((1, 512, 4, 4), np.uint8), np.full((3, 512, 3, 3), 255, np.uint8), 255, np.array([0, 7, 255])),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_integer_sums_above_float32_are_exact(name: str) -> None:
    """Sums beyond 2^24, by every routine that tuning could choose, and in a session."""
    x, w, x_zero, w_zero = EXTREMES[name]
    want = exact_sums(x, w, x_zero, w_zero, 1)
    assert np.abs(want).max() > 1 << 24 or name == "both_signs"
    proto = integer_conv(x, w, x_zero, w_zero, 1)
    session = softneuro.Session(softneuro.tune(proto, threads=1, effort=0))
    (found,) = session.run({"x": x}).values()
    assert not any(isinstance(step, HostStep) for step in session.linked({"x": x}).program.steps)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, want)
    a = np.ascontiguousarray(np.moveaxis(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=x_zero), 1, -1))
    (rows,) = Patches((3, 3), (1, 1), (1, 1)).reference((a,))
    columns = np.ascontiguousarray(w.transpose(2, 3, 1, 0).reshape(-1, len(w)))
    values = [rows, columns, np.array(x_zero, x.dtype), w_zero.astype(w.dtype)]
    problem = Problem.of(IntegerMatMul(), tuple(map(TensorType.of, values)), (False, True, True, True))
    for target in TARGETS.values():
        for one in candidates(problem, target):
            if not one.routine.name.endswith("reference"):
                (y,) = execute(one.routine, problem, one.signature, one.schedule, target, values)
                np.testing.assert_array_equal(np.moveaxis(y, -1, 1), want)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 9), (1, 5, 6, 7), (1, 2, 4, 5, 3)], ids=["line", "image", "volume"])
def test_integer_convolutions_of_any_rank(shape: tuple[int, ...], stride: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    w = rng.integers(-128, 128, (4, shape[1], *(2,) * (len(shape) - 2))).astype(np.int8)
    zero = np.array([0, 1, -5, 9])
    graph = import_model(integer_conv(x, w, 130, zero, 1, stride))
    assert not any(isinstance(layer.op, OnnxOp) for layer in graph.layers)
    plan = softneuro.tune(integer_conv(x, w, 130, zero, 1, stride), threads=2, effort=0)
    (found,) = softneuro.Session(plan).run({"x": x}).values()
    np.testing.assert_array_equal(found, exact_sums(x, w, 130, zero, 1, stride))


def test_groups_and_unknown_zero_points_stay_with_the_reference() -> None:
    x, w = np.ones((1, 4, 5, 5), np.uint8), np.ones((4, 2, 3, 3), np.int8)
    grouped = one_node("ConvInteger", {"x": x}, constants={"w": w}, group=2)
    computed = one_node("ConvInteger", {"x": x, "w": np.ones((4, 4, 3, 3), np.int8), "z": np.array(3, np.uint8)}, pads=[1] * 4)
    for proto in (grouped, computed):
        (layer,) = import_model(proto).layers
        assert isinstance(layer.op, OnnxOp)
