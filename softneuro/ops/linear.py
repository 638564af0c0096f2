"""What convolutions and matrix products share: the ranks of images and weights, and what follows the products."""

from __future__ import annotations

from softneuro.errors import InputError
from softneuro.ops.base import Types, Values
from softneuro.ops.epilogue import Epilogue
from softneuro.types import Array, Shape, TensorType

__all__ = ["finished", "need_additions", "need_spatial_ranks", "need_windows"]


def need_spatial_ranks(x: TensorType, weights: TensorType, spatial: int) -> None:
    """Raise InputError unless both have two axes beside the ``spatial`` ones."""
    if x.rank != spatial + 2 or weights.rank != spatial + 2:
        raise InputError(f"input has shape {x.shape} and weights {weights.shape}, needed rank {spatial + 2} for both")


def need_windows(spatial: int, strides: Shape, pads: Shape, dilations: Shape) -> None:
    """Raise InputError unless there are positive strides and dilations for every spatial axis, and pads of 0 or more."""
    if not len(strides) == len(dilations) == spatial or len(pads) != 2 * spatial:
        raise InputError(f"found strides {strides}, pads {pads} and dilations {dilations}, needed those of {spatial} axes")
    if min((*strides, *dilations), default=1) < 1 or min(pads, default=0) < 0:
        raise InputError(f"found strides {strides}, pads {pads} and dilations {dilations}, needed strides and dilations of "
                         "1 or more and pads of 0 or more")


def need_additions(types: Types, bias: bool, epilogue: Epilogue, channels: int, output: Shape) -> None:
    """Raise InputError unless what follows two operands is a bias of one element for each channel, when there is one, and a
    residual that broadcasts to the output, when there is one; the residual may not be there yet."""
    needed = 2 + bias + bool(epilogue.residual)
    if len(types) not in (2 + bias, needed) or None in types:
        raise InputError(f"found {len(types)} inputs, needed {needed}")
    added = types[2] if bias else None
    if added is not None and added.shape != (channels,):
        raise InputError(f"bias has shape {added.shape}, needed ({channels},)")
    residual = types[2 + bias] if len(types) > 2 + bias else None
    if residual is not None and not _broadcasts_to(residual.shape, output):
        raise InputError(f"residual has shape {residual.shape}, needed one that broadcasts to {output}")


def _broadcasts_to(shape: Shape, output: Shape) -> bool:
    tail = output[len(output) - len(shape) :]
    return len(shape) <= len(output) and all(a in (1, b) for a, b in zip(shape, tail, strict=True))


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
