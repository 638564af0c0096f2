"""Ops on shapes and small values: constants they become, limits they keep."""

from __future__ import annotations

import numpy as np
import pytest

from softneuro.errors import DynamicShape, InputError, ResourceLimitError
from softneuro.ops.base import Op
from softneuro.ops.shape import Constant, ConstantOfShape, Fill, Range, Shape, Size
from softneuro.ops.text import format_op, parse_op
from softneuro.types import Array, DType, TensorType

X = TensorType(DType.F32, (2, 3, 4))

SHAPES: dict[str, tuple[Shape, list[int]]] = {
    "whole": (Shape(), [2, 3, 4]),
    "start": (Shape(1), [3, 4]),
    "negative_start": (Shape(-2), [3, 4]),
    "end": (Shape(0, -1), [2, 3]),
    "clamped": (Shape(-10, 10), [2, 3, 4]),
    "empty": (Shape(2, 1), []),
}


@pytest.mark.parametrize("op, sizes", SHAPES.values(), ids=SHAPES.keys())
def test_shape(op: Shape, sizes: list[int]) -> None:
    bound = op.bind([X], [None])
    assert bound is not None
    assert bound.inputs == ()
    for (value,) in (bound.op.reference([]), op.reference([np.zeros(X.shape)])):
        assert value.dtype == np.int64
        assert value.tolist() == sizes
    assert op.infer([X]) == bound.op.infer([]) == (TensorType(DType.I64, (len(sizes),)),)


def test_size() -> None:
    bound = Size().bind([X], [None])
    assert bound is not None
    assert bound.op.reference([])[0] == Size().reference([np.zeros(X.shape)])[0] == 24
    assert Size().infer([X]) == (TensorType(DType.I64, ()),)


@pytest.mark.parametrize(
    "array",
    [np.array(1.5, np.float32), np.array([[True, False]]), np.zeros((0, 2), np.int8), np.array([1 + 2j], np.complex64)],
    ids=["scalar", "bool", "empty", "complex"],
)
def test_constant_keeps_its_array(array: Array) -> None:
    op = Constant.of(array)
    (value,) = op.reference([])
    assert op.infer([]) == (TensorType.of(array),)
    assert value.dtype == array.dtype
    np.testing.assert_array_equal(value, array)
    assert parse_op(format_op(op)) == op


def test_constant_of_shape() -> None:
    op, shape = ConstantOfShape(DType.I32, 7), np.array([2, 3])
    bound = op.bind([TensorType.of(shape)], [shape])
    assert bound is not None
    assert (bound.op, bound.inputs) == (Fill(DType.I32, (2, 3), 7), ())
    np.testing.assert_array_equal(op.reference([shape])[0], np.full((2, 3), 7, np.int32))
    assert bound.op.infer([]) == (TensorType(DType.I32, (2, 3)),)


@pytest.mark.parametrize(
    "start, limit, delta",
    [(0, 5, 1), (5, 0, -2), (0, 0, 1), (3, 0, 1), (-1, 6, 3), (0.0, 1.0, 0.25), (1.0, 0.0, -0.3), (0.0, 1.0, 0.3)],
)
def test_range(start: float, limit: float, delta: float) -> None:
    dtype = np.float32 if isinstance(start, float) else np.int64
    values = [np.array(v, dtype) for v in (start, limit, delta)]
    bound = Range().bind([TensorType.of(v) for v in values], values)
    assert bound is not None
    (found,) = bound.op.reference([])
    np.testing.assert_allclose(found, np.arange(start, limit, delta, dtype), rtol=1e-6)
    assert found.dtype == dtype


SCALAR, VECTOR = TensorType(DType.I64, ()), TensorType(DType.I64, (2,))
REFUSED: dict[str, tuple[Op, list[TensorType], list[Array | None], type[InputError] | type[ResourceLimitError]]] = {
    "shape_of_fill_computed": (ConstantOfShape(DType.F32, 0.0), [VECTOR], [None], DynamicShape),
    "fill_negative": (ConstantOfShape(DType.F32, 0.0), [VECTOR], [np.array([2, -1])], InputError),
    "fill_too_large": (ConstantOfShape(DType.F32, 0.0), [VECTOR], [np.array([1 << 30, 1 << 30])], ResourceLimitError),
    "range_computed": (Range(), [SCALAR] * 3, [np.array(0), None, np.array(1)], DynamicShape),
    "range_without_step": (Range(), [SCALAR] * 3, [np.array(0), np.array(3), np.array(0)], InputError),
    "range_too_long": (Range(), [SCALAR] * 3, [np.array(0), np.array(1 << 60), np.array(1)], ResourceLimitError),
}


@pytest.mark.parametrize("op, types, values, kind", REFUSED.values(), ids=REFUSED.keys())
def test_refused(
    op: Op, types: list[TensorType], values: list[Array | None], kind: type[InputError] | type[ResourceLimitError]
) -> None:
    with pytest.raises(kind):
        bound = op.bind(types, values)
        assert bound is not None
        bound.op.infer([])
