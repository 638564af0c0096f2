"""Memory that starts on a cache line: vector loads of packed weights and arenas must not straddle two lines."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import numpy.typing as npt

from softneuro.types import Array, Shape

__all__ = ["ALIGNMENT", "address_of", "aligned", "aligned_bytes", "aligned_empty"]

ALIGNMENT = 64


def aligned_bytes(nbytes: int) -> npt.NDArray[np.uint8]:
    """Uninitialised bytes at an address that is a multiple of 64."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def aligned_empty(shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """An uninitialised C-contiguous array at an address that is a multiple of 64."""
    kind = np.dtype(dtype)
    return aligned_bytes(math.prod(shape) * kind.itemsize).view(kind).reshape(shape)


def address_of(array: Array) -> int:
    """Where the array's first element lies. As `ndarray.ctypes` says, but without making its objects where it can."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (BufferError, TypeError, ValueError):  # not writable, not contiguous, empty, or of a type that buffers do not know
        return int(array.ctypes.data)


def aligned(array: Array) -> Array:
    """The array itself when it is C-contiguous and starts on a cache line, else such a copy."""
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
