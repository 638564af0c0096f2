"""layer_norm.rows.f32.chf against numpy, and the shapes and meanings of the normalisation ops."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, execute, runnable_targets

from softneuro.errors import InputError
from softneuro.ops.base import Op
from softneuro.ops.norm import BatchNorm, InstanceNorm, LayerNorm
from softneuro.problem import Problem
from softneuro.routines.instance_norm import INSTANCE_NORM_ROWS_F32_CHF
from softneuro.routines.layer_norm import LAYER_NORM_ROWS_F32_CHF
from softneuro.types import DType, TensorType

TARGETS = runnable_targets()
Shape = tuple[int, ...]


def f32(*shapes: Shape) -> tuple[TensorType, ...]:
    return tuple(TensorType(DType.F32, shape) for shape in shapes)


def layer_norm(x: Shape, axis: int = -1, scale: Shape | None = None, *, bias: bool = True) -> Problem:
    line = scale or x[axis if axis >= 0 else axis + len(x) :]
    types = f32(x, line, line)[: 2 + bias]
    return Problem.of(LayerNorm(axis, 1e-5, bias), types, (False, *(True,) * (len(types) - 1)))


PROBLEMS = {
    "whole_vectors": layer_norm((3, 128)),
    "unrolled_and_a_rest": layer_norm((2, 3, 149)),
    "shorter_than_a_vector": layer_norm((5, 3)),
    "one_element": layer_norm((4, 1)),
    "no_bias": layer_norm((3, 40), bias=False),
    "two_axes": layer_norm((3, 4, 7), 1),
    "everything": layer_norm((4, 7), 0),
    "scale_with_leading_ones": layer_norm((2, 3, 20), -1, (1, 1, 20)),
}
CASES = cases(LAYER_NORM_ROWS_F32_CHF, PROBLEMS, TARGETS)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_equals_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    check(LAYER_NORM_ROWS_F32_CHF, problem, signature, schedule, target)


def instance_norm(*x: int) -> Problem:
    return Problem.of(InstanceNorm(1e-5), f32(x, (x[1],), (x[1],)), (False, True, True))


OF_IMAGES = {
    "a_rest": instance_norm(2, 3, 5, 7),
    "whole_vectors": instance_norm(1, 4, 8, 16),
    "sound": instance_norm(3, 2, 150),
    "one_element_each": instance_norm(2, 5, 1, 1),
    "no_spatial_axes": instance_norm(2, 5),
}
IMAGE_CASES = cases(INSTANCE_NORM_ROWS_F32_CHF, OF_IMAGES, TARGETS)


@pytest.mark.parametrize("case", IMAGE_CASES, ids=[c[0] for c in IMAGE_CASES])
def test_images_equal_reference(case: tuple) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(INSTANCE_NORM_ROWS_F32_CHF, problem, signature, schedule, target, threads=threads)


def test_images_refused() -> None:
    target = next(iter(TARGETS.values()))
    found = INSTANCE_NORM_ROWS_F32_CHF.reject(instance_norm(2, 3, 0), target)
    assert found == "found an input of shape (2, 3, 0), needed at least one element"


def test_work_is_shared_by_threads() -> None:
    _, problem, signature, schedule, target = CASES[3]
    check(LAYER_NORM_ROWS_F32_CHF, problem, signature, schedule, target, threads=3)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_large_mean_costs_no_digits(target) -> None:
    problem = layer_norm((2, 300))
    (signature,) = LAYER_NORM_ROWS_F32_CHF.signatures(problem)
    x = (np.random.default_rng(2).integers(-8, 8, (2, 300)) / 8 + 4096).astype(np.float32)
    values = [x, np.ones(300, np.float32), np.zeros(300, np.float32)]
    (found,) = execute(LAYER_NORM_ROWS_F32_CHF, problem, signature, {}, target, values)
    (wanted,) = problem.op.reference([v.astype(np.float64) for v in values])
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize(("problem", "reason"), [
    (Problem.of(LayerNorm(), tuple(TensorType(DType.F64, s) for s in ((2, 3), (3,))), (False, True)),
     "found f64 input, needed f32"),
    (layer_norm((2, 3), -1, (1,)), "found scale of shape (1,), needed (3,)"),
    (layer_norm((2, 3), -1, (2, 3)), "found scale of shape (2, 3), needed (3,)"),
    (layer_norm((0, 3)), "found an input of shape (0, 3), needed at least one element"),
])  # fmt: skip
def test_refusals_say_found_and_needed(problem: Problem, reason: str) -> None:
    assert LAYER_NORM_ROWS_F32_CHF.reject(problem, next(iter(TARGETS.values()))) == reason


def test_batch_norm_uses_the_given_statistics() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    scale, bias, mean, variance = (np.array(v, np.float32) for v in ([1, 2, 3], [0, 1, 0], [1, 1, 2], [1, 4, 9]))
    (y,) = BatchNorm(0.0).reference([x, scale, bias, mean, variance])
    np.testing.assert_allclose(y[:, 0], x[:, 0] - 1)
    np.testing.assert_allclose(y[:, 1], x[:, 1])
    np.testing.assert_allclose(y[:, 2], x[:, 2] - 2, rtol=1e-6)
    assert y.dtype == np.float32


def test_instance_norm_standardises_every_channel() -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    (y,) = InstanceNorm(0.0).reference([x, np.array([1, 2, 3], np.float32), np.array([0, 5, 0], np.float32)])
    np.testing.assert_allclose(y.mean(axis=(2, 3)), [[0, 5, 0]] * 2, atol=1e-5)
    np.testing.assert_allclose(y.std(axis=(2, 3)), [[1, 2, 3]] * 2, rtol=1e-5)


@pytest.mark.parametrize(("op", "types", "reason"), [
    (LayerNorm(), f32((2, 3), (2,)), "scale has shape (2,), needed one that broadcasts to (2, 3)"),
    (LayerNorm(2), f32((2, 3), (3,)), "axis is 2, needed one from -2 to 1 for an input of rank 2"),
    (LayerNorm(bias=True), f32((2, 3), (3,)), "found 2 inputs, needed x, scale, bias"),
    (BatchNorm(), f32((2, 3), (3,), (3,), (2,), (3,)), "mean has shape (2,), needed (3,)"),
    (InstanceNorm(), f32((3,), (3,), (3,)), "input has shape (3,), needed at least 2 axes"),
])  # fmt: skip
def test_inputs_that_do_not_fit(op: Op, types: tuple[TensorType, ...], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        op.infer(types)
    assert str(caught.value) == reason
