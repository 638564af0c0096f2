"""Casts between float32 and the 16-bit floats: every bit pattern, on every target and number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import execute, runnable_targets

from softneuro.codegen.target import Target
from softneuro.ops.pointwise import Pointwise
from softneuro.problem import Problem
from softneuro.routines.convert_half import POINTWISE_CONVERT_HALF
from softneuro.types import Array, DType, TensorType

TARGETS = list(runnable_targets().values())
HALVES = (DType.F16, DType.BF16)


def cast(values: Array, wanted: DType, target: Target, threads: int = 1) -> Array:
    problem = Problem.of(Pointwise(f"cast_{wanted}(x0)"), (TensorType.of(values),), (False,))
    assert POINTWISE_CONVERT_HALF.reject(problem, target) is None
    signature = POINTWISE_CONVERT_HALF.signatures(problem)[0]
    return execute(POINTWISE_CONVERT_HALF, problem, signature, {}, target, [values], threads)[0]


def same_bits(found: Array, expected: Array) -> None:
    """Equal to the bit, zeros' signs included; any NaN for a NaN."""
    assert found.dtype == expected.dtype
    assert (np.isnan(found) == np.isnan(expected)).all()
    kind = np.uint16 if found.itemsize == 2 else np.uint32
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(kind)[numbers], expected.view(kind)[numbers])


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("half", HALVES)
def test_widens_every_pattern(half: DType, target: Target) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(half.numpy)
    same_bits(cast(values, DType.F32, target), values.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("half", HALVES)
def test_narrows_to_nearest_even(half: DType, target: Target) -> None:
    """Every 16-bit number, the middle to the next one, and what lies just beside that middle."""
    exact = np.arange(1 << 16, dtype=np.uint16).view(half.numpy).astype(np.float32)
    finite = np.sort(exact[np.isfinite(exact)].astype(np.float64))
    middles = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middles, np.float32(way)) for way in (-np.inf, np.inf)]
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 65519.9, 65520.0, 1e-45, 3.4e38, -3.4e38], np.float32)
    values = np.concatenate([exact, middles, *beside, special])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(half.numpy)
    same_bits(cast(values, half, target), expected)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 33), (2, 5, 3, 9)], ids=str)
def test_any_size_and_number_of_threads(shape: tuple[int, ...], threads: int, target: Target) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for half in HALVES:
        narrow = cast(values, half, target, threads)
        same_bits(narrow, np.asarray(values.astype(half.numpy)))
        same_bits(cast(narrow, DType.F32, target, threads), np.asarray(narrow.astype(np.float32)))


@pytest.mark.parametrize("program", ["cast_f64(x0)", "cast_f16(x0);cast_f32(t0)", "neg(x0)"])
def test_refuses_what_is_no_such_cast(program: str) -> None:
    problem = Problem.of(Pointwise(program), (TensorType(DType.F32, (4,)),), (False,))
    assert "needed" in str(POINTWISE_CONVERT_HALF.reject(problem, TARGETS[0]))
