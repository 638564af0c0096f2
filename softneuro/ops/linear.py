"""What convolutions and matrix products share: the ranks of images and weights, and what follows the products."""

from __future__ import annotations

from softneuro.errors import InputError
from softneuro.ops.base import Values
from softneuro.ops.epilogue import Epilogue
from softneuro.types import Array, TensorType

__all__ = ["finished", "need_spatial_ranks"]


def need_spatial_ranks(x: TensorType, weights: TensorType, spatial: int) -> None:
    """Raise InputError unless both have two axes beside the ``spatial`` ones."""
    if x.rank != spatial + 2 or weights.rank != spatial + 2:
        raise InputError(f"input has shape {x.shape} and weights {weights.shape}, needed rank {spatial + 2} for both")


def finished(products: Array, inputs: Values, bias: bool, epilogue: Epilogue, after: int = 0) -> Array:
    """The products plus the bias through the epilogue, in the data type of input 0 and the products' shape.

    With ``bias`` input 2 is one, along the axis that has ``after`` others after it; the residual is the next input.
    """
    x = inputs[0]
    assert x is not None
    y = products
    if bias:
        values = inputs[2]
        assert values is not None
        y = y + values.reshape(-1, *(1,) * after)
    residual = inputs[2 + bias] if epilogue.residual else None
    return epilogue.reference(y, residual).astype(x.dtype, copy=False).reshape(products.shape)
