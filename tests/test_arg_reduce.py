"""ArgMax and ArgMin: rows and columns, ties from both ends, NaN, all data types."""

from __future__ import annotations

import numpy as np
import pytest
from exact import assert_exact
from oracle import runnable_targets

from softneuro.codegen.target import Target
from softneuro.ops.reduce import ArgReduce
from softneuro.routines.arg_reduce import ARG_REDUCE_LINES_ANY
from softneuro.types import Array, DType

RNG = np.random.default_rng(0)
NAN = RNG.standard_normal((5, 40)).astype(np.float32)
NAN[1, [7, 30]] = np.nan
NAN[2, :] = -np.inf
NAN[3, 3:5] = 0.0, -0.0
NAN[4, 39] = -np.nan
CASES: dict[str, tuple[int, Array]] = {
    "rows": (-1, RNG.standard_normal((3, 100)).astype(np.float32)),
    "short_rows_with_ties": (1, RNG.integers(0, 2, (9, 5)).astype(np.float32)),
    "rows_with_ties": (1, RNG.integers(0, 3, (4, 77)).astype(np.int32)),
    "columns": (0, RNG.standard_normal((21, 133)).astype(np.float32)),
    "columns_of_images": (1, RNG.integers(0, 9, (2, 21, 7, 19)).astype(np.float32)),
    "one_element": (0, np.array([2.0], np.float32)),
    "one_long_line": (0, RNG.integers(-9, 9, 5000)),
    "nan_in_rows": (1, NAN),
    "nan_in_columns": (0, NAN),
    "smallest_integers": (-1, np.full((3, 20), np.iinfo(np.int32).min, np.int32)),
    "largest_integers": (-1, np.full((3, 20), np.iinfo(np.int64).max, np.int64)),
}
TYPES = [d for d in DType if d not in (DType.STR, DType.OTHER, DType.C64, DType.C128, DType.BF16)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, target: Target, kind: str, last: bool) -> None:
    axis, x = CASES[name]
    for threads in (1, 3):
        assert_exact(ARG_REDUCE_LINES_ANY, ArgReduce(kind, axis, True, last), (x,), target, threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", runnable_targets().values(), ids=runnable_targets())
@pytest.mark.parametrize("dtype", TYPES)
def test_orders_every_data_type(dtype: DType, target: Target, axis: int) -> None:
    x = np.random.default_rng(1).integers(0, 100, (43, 21)).astype(dtype.numpy)
    if np.dtype(dtype.numpy).kind in "if":
        x -= 50
    assert_exact(ARG_REDUCE_LINES_ANY, ArgReduce("max", axis, keepdims=False), (x,), target)
