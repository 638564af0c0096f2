"""Matrix product with numpy's batching and broadcasting, optional transposes, bias and epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.epilogue import NO_EPILOGUE, Epilogue
from softneuro.ops.linear import finished, need_additions
from softneuro.types import Array, Shape, TensorType

__all__ = ["MatMul"]


def _matrix(shape: Shape, transpose: bool, *, column: bool) -> Shape:
    """An operand's shape as a (batch of) matrices: one axis becomes a row, or with ``column`` a column."""
    if len(shape) == 1:
        return (*shape, 1) if column else (1, *shape)
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def _maybe_transpose(array: Array, transpose: bool) -> Array:
    return np.swapaxes(array, -1, -2) if transpose and array.ndim >= 2 else array


@dataclass(frozen=True)
class MatMul(Op):
    """a (..., m, k) times b (..., k, n), as numpy.matmul: leading axes broadcast, operands of one axis are vectors.

    Inputs: a, b, bias (n) when ``bias``, residual when the epilogue has one (broadcast to the output).
    transpose_a, transpose_b: the operand is stored with its last two axes swapped (no effect on vectors).
    """

    name: ClassVar[str] = "matmul"
    transpose_a: bool = False
    transpose_b: bool = False
    bias: bool = False
    epilogue: Epilogue = NO_EPILOGUE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = types[0], types[1]
        assert a is not None and b is not None
        if a.rank == 0 or b.rank == 0:
            raise InputError(f"operands have shapes {a.shape} and {b.shape}, needed at least one axis each")
        if a.dtype is not b.dtype:
            raise InputError(f"operands are {a.dtype} and {b.dtype}, needed one data type")
        left = _matrix(a.shape, self.transpose_a, column=False)
        right = _matrix(b.shape, self.transpose_b, column=True)
        if left[-1] != right[-2]:
            raise InputError(f"operands have shapes {a.shape} and {b.shape}, which sum {left[-1]} and {right[-2]} "
                             "products, needed equal counts")
        try:
            batch = np.broadcast_shapes(left[:-2], right[:-2])
        except ValueError:
            raise InputError(f"operands have leading axes {left[:-2]} and {right[:-2]}, needed broadcastable ones"
                             ) from None
        rows = () if a.rank == 1 else (left[-2],)
        columns = () if b.rank == 1 else (right[-1],)
        shape = (*batch, *rows, *columns)
        need_additions(types, self.bias, self.epilogue, right[-1], shape)
        return (TensorType(a.dtype, shape),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        a, b = inputs[0], inputs[1]
        assert a is not None and b is not None
        y = np.asarray(np.matmul(_maybe_transpose(a, self.transpose_a), _maybe_transpose(b, self.transpose_b)))
        return (finished(y, inputs, self.bias, self.epilogue),)

    def macs(self, types: Types) -> int:
        (y,) = self.infer(types)
        a = types[0]
        assert a is not None
        return y.size * _matrix(a.shape, self.transpose_a, column=False)[-1]
