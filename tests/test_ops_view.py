"""Ops that rename shapes: what they bind to, what they infer, compute and refuse."""

from __future__ import annotations

import numpy as np
import pytest

from softneuro.errors import DynamicShape, InputError
from softneuro.ops.base import Bound, Op
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze, View
from softneuro.types import Array, DType, TensorType


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


# op, x's shape, value of input 1 (None: no such input), shape of the result
FORMS: dict[str, tuple[Op, tuple[int, ...], Array | None, tuple[int, ...]]] = {
    "reshape": (Reshape(), (2, 6), ints(3, 4), (3, 4)),
    "reshape_rest": (Reshape(), (2, 3, 4), ints(-1, 4), (6, 4)),
    "reshape_rest_is_everything": (Reshape(), (2, 3), ints(-1), (6,)),
    "reshape_copies_sizes": (Reshape(), (2, 3, 4), ints(0, -1), (2, 12)),
    "reshape_copies_size_beyond_rest": (Reshape(), (2, 3, 4), ints(-1, 0, 2), (4, 3, 2)),
    "reshape_to_scalar": (Reshape(), (1, 1), ints(), ()),
    "reshape_empty_allowzero": (Reshape(True), (0, 3), ints(3, 0), (3, 0)),
    "reshape_empty_rest": (Reshape(), (0, 3), ints(-1, 3), (0, 3)),
    "flatten": (Flatten(), (2, 3, 4), None, (2, 12)),
    "flatten_axis_0": (Flatten(0), (2, 3), None, (1, 6)),
    "flatten_axis_rank": (Flatten(2), (2, 3), None, (6, 1)),
    "flatten_negative": (Flatten(-1), (2, 3, 4), None, (6, 4)),
    "flatten_scalar": (Flatten(0), (), None, (1, 1)),
    "squeeze_all": (Squeeze(), (1, 3, 1, 2), None, (3, 2)),
    "squeeze_field": (Squeeze((0, -2)), (1, 3, 1, 2), None, (3, 2)),
    "squeeze_input": (Squeeze(), (1, 3, 1), ints(2), (1, 3)),
    "squeeze_nothing": (Squeeze(()), (1, 3), None, (1, 3)),
    "unsqueeze_field": (Unsqueeze((0, 3)), (2, 3), None, (1, 2, 3, 1)),
    "unsqueeze_negative_order": (Unsqueeze((-1, 0)), (2, 3), None, (1, 2, 3, 1)),
    "unsqueeze_input": (Unsqueeze(), (2, 3), ints(1), (2, 1, 3)),
    "unsqueeze_scalar": (Unsqueeze((0,)), (), None, (1,)),
    "identity": (Identity(), (2, 3), None, (2, 3)),
}


@pytest.mark.parametrize("op, shape, parameter, target", FORMS.values(), ids=FORMS.keys())
def test_bind_and_reference(op: Op, shape: tuple[int, ...], parameter: Array | None, target: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    inputs = [x] if parameter is None else [x, parameter]
    types = [TensorType.of(value) for value in inputs]
    bound = op.bind(types, [None, *inputs[1:]])
    assert bound == Bound(View(target), (0,))
    assert bound.op.infer(types[:1]) == (TensorType(DType.F32, target),)
    if parameter is None:
        assert op.infer(types) == (TensorType(DType.F32, target),)
    (y,) = op.reference(inputs)
    assert y.shape == target
    np.testing.assert_array_equal(y.reshape(-1), x.reshape(-1))


REFUSED: dict[str, tuple[Op, tuple[int, ...], Array | None, str]] = {
    "reshape_other_size": (Reshape(), (2, 3), ints(4, 2), "needed 8 for shape (4, 2)"),
    "reshape_rest_does_not_divide": (Reshape(), (2, 3), ints(4, -1), "needed elements that divide into shape (4, -1)"),
    "reshape_two_rests": (Reshape(), (2, 3), ints(-1, -1), "at most one -1"),
    "reshape_negative": (Reshape(), (2, 3), ints(-2, 3), "sizes of at least 0"),
    "reshape_copies_missing_axis": (Reshape(), (6,), ints(6, 0), "with 0 for axis 1"),
    "reshape_without_shape": (Reshape(), (6,), None, "found no shape"),
    "flatten_axis": (Flatten(3), (2, 3), None, "axis is 3, needed one from -2 to 2"),
    "squeeze_wide_axis": (Squeeze((1,)), (1, 3), None, "found 3 elements on axis 1"),
    "squeeze_twice": (Squeeze((0, -2)), (1, 1), None, "at most once"),
    "squeeze_axis": (Squeeze((2,)), (1, 3), None, "axis is 2"),
    "unsqueeze_axis": (Unsqueeze((4,)), (2, 3), None, "axis is 4"),
    "unsqueeze_without_axes": (Unsqueeze(), (2, 3), None, "found no axes"),
    "view_other_size": (View((5,)), (2, 3), None, "needed 5 for shape (5,)"),
}


@pytest.mark.parametrize("op, shape, parameter, fragment", REFUSED.values(), ids=REFUSED.keys())
def test_refused(op: Op, shape: tuple[int, ...], parameter: Array | None, fragment: str) -> None:
    types = [TensorType(DType.F32, shape)] + ([] if parameter is None else [TensorType.of(parameter)])
    with pytest.raises(InputError) as caught:
        bound = op.bind(types, [None, parameter])
        (bound.op if bound else op).infer(types[:1])
    assert fragment in str(caught.value)


@pytest.mark.parametrize("op", [Reshape(), Squeeze(), Unsqueeze()], ids=lambda op: op.name)
def test_computed_parameter_is_dynamic(op: Op) -> None:
    types = [TensorType(DType.F32, (2, 3)), TensorType(DType.I64, (2,))]
    with pytest.raises(DynamicShape):
        op.bind(types, [None, None])


def test_identity_passes_on_what_is_no_tensor() -> None:
    sequence = [np.zeros(2), np.ones(3)]
    assert Identity().bind([TensorType(DType.OTHER, ())], [None]) is None
    assert Identity().reference([sequence])[0] is sequence
    assert Identity().reference([None]) == (None,)
