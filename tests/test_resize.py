"""Resize: the op against onnx.reference, the routines against the op."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from oracle import cases, check, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.resize import Resize
from softneuro.problem import Problem
from softneuro.routines.resize_bilinear import RESIZE_BILINEAR_F32_CHL
from softneuro.routines.resize_nearest import RESIZE_NEAREST_ANY
from softneuro.routines.resize_separable import RESIZE_SEPARABLE_F32
from softneuro.routines.routine import Routine
from softneuro.types import Array, DType, TensorType

X = np.arange(2 * 3 * 5 * 6, dtype=np.float32).reshape(2, 3, 5, 6) ** 1.5 % 7.0


def onnx_resize(x: Array, roi: Any, scales: Any, sizes: Any, **attributes: Any) -> Array:
    feeds = {"x": x}
    names = ["x"]
    for name, value, dtype in (("roi", roi, np.float32), ("scales", scales, np.float32), ("sizes", sizes, np.int64)):
        names.append(name if value is not None else "")
        if value is not None:
            feeds[name] = np.array(value, dtype)
    node = helper.make_node("Resize", names, ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
              for n, v in feeds.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return ReferenceEvaluator(model).run(None, feeds)[0]


def softneuro_resize(x: Array, roi: Any, scales: Any, sizes: Any, op: Resize) -> Array:
    parameters = ((roi, np.float32), (scales, np.float32), (sizes, np.int64))
    values = [x, *(None if value is None else np.array(value, dtype) for value, dtype in parameters)]
    bound = op.bind([None if v is None else TensorType.of(v) for v in values], values)
    assert bound is not None and bound.inputs == (0,)
    (y,) = bound.op.reference([x])
    assert bound.op.infer([TensorType.of(x)]) == (TensorType.of(y),)
    return y


UP, DOWN, ODD = [1, 1, 2, 3], [1, 1, 0.6, 0.5], [1, 1, 1.3, 0.8]
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("scales", [UP, DOWN, ODD, [1, 1, 0.2, 1 / 6]], ids=["up", "down", "odd", "to_one"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_coordinate_modes(mode: str, coordinates: str, scales: list[float]) -> None:
    want = onnx_resize(X, None, scales, None, mode=mode, coordinate_transformation_mode=coordinates)
    got = softneuro_resize(X, None, scales, None, Resize(mode, coordinates))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("sizes", [[2, 3, 10, 12], [2, 3, 2, 3], [2, 3, 7, 4]], ids=["double", "shrink", "mixed"])
def test_nearest_modes(rounding: str, sizes: list[int]) -> None:
    want = onnx_resize(X, None, None, sizes, mode="nearest", nearest_mode=rounding)
    np.testing.assert_array_equal(softneuro_resize(X, None, None, sizes, Resize(nearest=rounding)), want)


@pytest.mark.parametrize(("op", "attributes"), [
    (Resize("cubic", cubic_a=-0.5), {"mode": "cubic", "cubic_coeff_a": -0.5}),
    (Resize("cubic", exclude_outside=True), {"mode": "cubic", "exclude_outside": 1}),
    (Resize("linear", antialias=True), {"mode": "linear", "antialias": 1}),
    (Resize("cubic", antialias=True), {"mode": "cubic", "antialias": 1}),
    (Resize("cubic", antialias=True, exclude_outside=True), {"mode": "cubic", "antialias": 1, "exclude_outside": 1}),
], ids=["cubic_a", "exclude_outside", "linear_antialias", "cubic_antialias", "antialias_excluding"])  # fmt: skip
@pytest.mark.parametrize("scales", [UP, DOWN, ODD], ids=["up", "down", "odd"])
def test_filters(op: Resize, attributes: dict[str, Any], scales: list[float]) -> None:
    want = onnx_resize(X, None, scales, None, **attributes)
    np.testing.assert_allclose(softneuro_resize(X, None, scales, None, op), want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2]])
def test_aspect_ratio_policies(policy: str, axes: list[int]) -> None:
    want = onnx_resize(X, None, None, [9, 7], mode="linear", keep_aspect_ratio_policy=policy, axes=axes)
    got = softneuro_resize(X, None, None, [9, 7], Resize("linear", policy=policy, axes=tuple(axes)))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [[0, 0, 0.2, 0.33, 1, 1, 0.8, 0.9], [0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7]],
                         ids=["inside", "outside"])
def test_crop_and_resize(mode: str, roi: list[float]) -> None:
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 10.0}
    want = onnx_resize(X, roi, None, [2, 3, 4, 3], mode=mode, **attributes)
    got = softneuro_resize(X, roi, None, [2, 3, 4, 3], Resize(mode, "tf_crop_and_resize", extrapolation=10.0))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


def test_integers_are_rounded_and_saturated() -> None:
    x = np.array([[0, 250, 255, 3]], np.uint8)
    want = onnx_resize(x, None, [1, 2.5], None, mode="cubic")
    np.testing.assert_array_equal(softneuro_resize(x, None, [1, 2.5], None, Resize("cubic")), want)


def test_scaled_size_is_rounded_in_float32() -> None:
    """10 x float32(0.7) is below 7 in float64, and 7 in ONNX's shape inference."""
    assert softneuro_resize(np.zeros((10,), np.float32), None, [0.7], None, Resize()).shape == (7,)


@pytest.mark.parametrize(("op", "types", "values", "reason"), [
    (Resize(), [TensorType(DType.F32, (4,))], [None], "needed exactly one of them"),
    (Resize("cube", scales=(2.0,)), [TensorType(DType.F32, (4,))], [None], "found mode 'cube'"),
    (Resize(scales=(2.0, 2.0)), [TensorType(DType.F32, (4,))], [None], "needed one number for each"),
    (Resize(), [TensorType(DType.F32, (4,)), None, TensorType(DType.F32, (1,))], [None] * 3, "computed at run time"),
    (Resize(antialias=True, scales=(2.0,)), [TensorType(DType.F32, (4,))], [None], "antialias with mode nearest"),
])  # fmt: skip
def test_refusals_say_found_and_needed(op: Resize, types: list[Any], values: list[Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        op.bind(types, values)


def resize(shape: tuple[int, ...], scales: tuple[float, ...], op: Resize, dtype: DType = DType.F32) -> Problem:
    x = TensorType(dtype, shape)
    bound = replace(op, scales=scales).bind([x], [None])
    assert bound is not None
    return Problem.of(bound.op, (x,), (False,))


CROP = Resize("linear", "tf_crop_and_resize", roi=(0.0, 0.0, 0.1, 0.2, 1.0, 1.0, 0.8, 0.9), sizes=(1, 4, 3, 5),
              scales=(1.0, 1.0, 0.6, 0.7))
PROBLEMS = {
    "nearest_double": resize((2, 5, 6, 19), (1, 1, 2, 2), Resize()),
    "nearest_double_bytes": resize((1, 3, 4, 67), (1, 1, 2, 2), Resize("nearest", "asymmetric", "floor"), DType.U8),
    "nearest_triple_width": resize((1, 3, 4, 35), (1, 1, 1, 3), Resize(), DType.I64),
    "nearest_quadruple_height": resize((1, 3, 4, 9), (1, 1, 4, 1), Resize(), DType.F16),
    "nearest_uneven": resize((2, 17, 5, 9), (1, 1, 1.7, 0.6), Resize()),
    "nearest_every_axis": resize((2, 3, 5, 4), (2, 1.4, 0.5, 3), Resize()),
    "nearest_line": resize((2, 3, 17), (1, 1, 2), Resize()),
    "nearest_unchanged": resize((2, 3, 17), (1, 1, 1), Resize()),
    "bilinear_double": resize((2, 18, 5, 7), (1, 1, 2, 2), Resize("linear")),
    "bilinear_one_channel": resize((1, 1, 5, 7), (1, 1, 2, 3), Resize("linear", "align_corners")),
    "bilinear_shrinks": resize((1, 33, 9, 8), (1, 1, 0.5, 0.4), Resize("linear", "asymmetric")),
    "linear_height_only": resize((1, 3, 4, 40), (1, 1, 2, 1), Resize("linear")),
    "linear_width_of_one_pixel": resize((1, 3, 4, 1), (1, 1, 1, 4), Resize("linear")),
    "linear_antialias": resize((1, 5, 16, 17), (1, 1, 0.3, 0.4), Resize("linear", antialias=True)),
    "trilinear": resize((1, 3, 4, 5, 6), (1, 1, 2, 1.5, 0.7), Resize("linear")),
    "linear_every_axis": resize((2, 3, 5, 4), (2, 1.4, 0.5, 3), Resize("linear")),
    "linear_matrix": resize((7, 9), (2, 1.5), Resize("linear")),
    "linear_unchanged": resize((7, 9), (1, 1), Resize("linear")),
    "linear_to_nothing": resize((7, 9), (1, 0.1), Resize("linear")),
    "cubic": resize((1, 19, 5, 6), (1, 1, 2, 1.5), Resize("cubic")),
    "cubic_antialias": resize((1, 4, 15, 16), (1, 1, 0.3, 0.5), Resize("cubic", antialias=True)),
    "crop_inside": Problem.of(CROP, (TensorType(DType.F32, (1, 4, 6, 8)),), (False,)),
}
ROUTINES = (RESIZE_NEAREST_ANY, RESIZE_BILINEAR_F32_CHL, RESIZE_SEPARABLE_F32)
CASES = [(routine, *case) for routine in ROUTINES for case in cases(routine, PROBLEMS, runnable_targets())]


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0].name}-{c[1]}" for c in CASES])
def test_routine_equals_op(case: tuple) -> None:
    routine, _, problem, signature, schedule, target = case
    check(routine, problem, signature, schedule, target)


@pytest.mark.parametrize("name", ["nearest_double", "nearest_uneven", "bilinear_double", "cubic"])
def test_work_is_shared_by_threads(name: str) -> None:
    for routine in ROUTINES:
        if routine.reject(PROBLEMS[name], host()) is None:
            for signature in routine.signatures(PROBLEMS[name]):
                check(routine, PROBLEMS[name], signature, {}, host(), threads=3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_a_routine_and_a_text(name: str) -> None:
    problem = PROBLEMS[name]
    assert any(routine.reject(problem, host()) is None for routine in ROUTINES)
    assert Problem.parse(problem.key()) == problem


def test_nearest_fills_outside_the_crop() -> None:
    op = replace(CROP, mode="nearest", extrapolation=9.0, roi=(0.0, 0.0, -0.5, 0.2, 1.0, 1.0, 0.8, 1.9))
    check(RESIZE_NEAREST_ANY, Problem.of(op, (TensorType(DType.F32, (1, 4, 6, 8)),), (False,)),
          RESIZE_NEAREST_ANY.signatures(PROBLEMS["crop_inside"])[0], {}, host())


@pytest.mark.parametrize(("routine", "problem", "reason"), [
    (RESIZE_NEAREST_ANY, PROBLEMS["cubic"], "found mode cubic, needed nearest"),
    (RESIZE_SEPARABLE_F32, PROBLEMS["nearest_line"], "found mode nearest, needed linear or cubic"),
    (RESIZE_SEPARABLE_F32, resize((4,), (2,), Resize("linear"), DType.F64), "found f64 input, needed f32"),
    (RESIZE_BILINEAR_F32_CHL, PROBLEMS["cubic"], "found mode cubic, needed linear"),
    (RESIZE_BILINEAR_F32_CHL, PROBLEMS["trilinear"], "needed images that change their height and width only"),
])  # fmt: skip
def test_rejections_say_found_and_needed(routine: Routine, problem: Problem, reason: str) -> None:
    assert reason in (routine.reject(problem, host()) or "")
