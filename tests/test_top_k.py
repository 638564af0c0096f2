"""TopK: ties, NaN, all data types, and many threads on one line."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact, problem_of
from oracle import runnable_targets

from softneuro.codegen.target import Target, host
from softneuro.errors import DynamicShape, InputError
from softneuro.ops.base import Bound
from softneuro.ops.top_k import TopK
from softneuro.routines.top_k import TOP_K_HEAP_ANY
from softneuro.types import Array, DType, TensorType

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -np.nan, 1.0, -1.0, 1e-40], np.float32)
CASES: dict[str, tuple[TopK, Array]] = {
    "last_axis": (TopK(-1, 3), RNG.standard_normal((4, 9)).astype(np.float32)),
    "first_axis": (TopK(0, 2), RNG.standard_normal((7, 3, 2)).astype(np.float32)),
    "middle_axis_smallest": (TopK(1, 4, False), RNG.standard_normal((2, 6, 5)).astype(np.float32)),
    "all_of_a_line": (TopK(0, 33), RNG.standard_normal(33).astype(np.float32)),
    "one_element": (TopK(0, 1), np.array([3], np.int64)),
    "long_line": (TopK(0, 300), RNG.standard_normal(8400).astype(np.float32)),
    "ascending": (TopK(0, 50), np.arange(5000, dtype=np.float32)),
    "all_equal": (TopK(0, 7), np.ones(4000, np.float32)),
    "many_ties": (TopK(-1, 1500), RNG.integers(0, 5, (2, 3001)).astype(np.int32)),
    "zeros_nan_and_infinities": (TopK(0, 9), SPECIAL),
    "zeros_nan_and_infinities_smallest": (TopK(0, 9, False), SPECIAL),
}
TYPES = [d for d in DType if d not in (DType.STR, DType.OTHER, DType.C64, DType.C128, DType.BF16)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, threads: int) -> None:
    op, x = CASES[name]
    assert_exact(TOP_K_HEAP_ANY, op, (x,), target, threads)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_orders_every_data_type(dtype: DType, largest: bool) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 40 * dtype.itemsize).astype(np.uint8)
    x = bits.view(dtype.numpy) if dtype is not DType.BOOL else bits < 128
    assert_exact(TOP_K_HEAP_ANY, TopK(0, 25, largest), (x,), host())


def test_k_from_an_input() -> None:
    types = (TensorType(DType.F32, (5,)), TensorType(DType.I64, (1,)))
    assert TopK().bind(types, (None, np.array([2]))) == Bound(TopK(k=2), (0,))
    with pytest.raises(DynamicShape, match="found the number of elements computed at run time"):
        TopK().bind(types, (None, None))


@pytest.mark.parametrize("k", [6, -1])
def test_refusal_says_found_and_needed(k: int) -> None:
    with pytest.raises(InputError, match=f"found k = {k}, needed 0 to 5, the size of axis 0 of f32"):
        problem_of(TopK(k=k), np.zeros(5, np.float32))
