"""What a run is given, checked against what the model declares."""

from __future__ import annotations

from typing import Any

import numpy as np

from softneuro.errors import InputError
from softneuro.graph import GraphInput
from softneuro.types import Array, DType, Shape

__all__ = ["checked", "shape_of"]


def checked(name: str, value: Any, declared: GraphInput) -> Any:
    """A feed as runs take it: a C-contiguous array; for inputs that are no tensors a list, a dict or None.

    Python numbers and lists of them become arrays of the declared data type where that loses nothing but precision;
    texts become objects. Raises InputError for a value of another kind or data type.
    """
    if type(value) is np.ndarray and value.dtype == declared.dtype.numpy and value.dtype.kind != "O" and value.flags.c_contiguous:
        return value  # what is given again and again is as it should be
    where = repr(name)
    if declared.kind:
        return _of_kind(where, value, declared.kind)
    if declared.dtype is DType.STR:
        return _strings(where, value)
    if declared.dtype is DType.OTHER:  # nothing is known of it
        return value if value is None or isinstance(value, (list, tuple, dict)) else np.asarray(value)
    return _numbers(where, value, declared.dtype.numpy)


def shape_of(value: Any) -> Shape:
    """The shape that a feed's specialisation depends on: none for what is no array."""
    return tuple(value.shape) if isinstance(value, np.ndarray) else ()


def _of_kind(where: str, value: Any, kind: str) -> Any:
    """The value as what `GraphInput.kind` describes."""
    head, _, rest = kind.partition("(")
    inner = rest.removesuffix(")")
    if head == "optional":
        return None if value is None else _of_kind(where, value, inner)
    if head == "sequence":
        if not isinstance(value, (list, tuple)):
            raise InputError(f"input {where}: found {_described(value)}, needed a list: {kind}")
        return [_of_kind(f"{where}[{index}]", item, inner) for index, item in enumerate(value)]
    if head == "map":
        if not isinstance(value, dict):
            raise InputError(f"input {where}: found {_described(value)}, needed a dict: {kind}")
        return value
    return _strings(where, value) if kind == "string" else _numbers(where, value, _dtype(kind))


def _dtype(name: str) -> np.dtype[Any]:
    """The numpy type of this name, or ml_dtypes' (float8 and other small ones)."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        small = getattr(ml_dtypes, name, None)
        if not isinstance(small, type):
            raise InputError(f"found an input of the kind {name!r} in the plan, needed a data type") from None
        return np.dtype(small)


def _numbers(where: str, value: Any, dtype: np.dtype[Any]) -> Array:
    array = _array(where, value, str(dtype))
    if array.dtype != dtype:
        if isinstance(value, (np.ndarray, np.generic)) or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"input {where}: found data type {array.dtype}, needed {dtype}")
        array = array.astype(dtype)
    return np.asarray(array, order="C")


def _strings(where: str, value: Any) -> Array:
    array = _array(where, value, "texts")
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "OUT":
        raise InputError(f"input {where}: found data type {array.dtype}, needed texts")
    return np.asarray(array.astype(object), order="C")


def _array(where: str, value: Any, elements: str) -> Array:
    if value is None or isinstance(value, dict):
        raise InputError(f"input {where}: found {_described(value)}, needed an array of {elements}")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(f"input {where}: found {_described(value)} that makes no array, needed rows of one length") from error


def _described(value: Any) -> str:
    """A value's kind in words."""
    if value is None:
        return "nothing"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"a {type(value).__name__}"
