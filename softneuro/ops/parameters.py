"""Parameters that arrive as inputs: read their values, or say that they are not known before the run."""

from __future__ import annotations

from softneuro.errors import DynamicShape, InputError
from softneuro.ops.base import Types, Values
from softneuro.types import Array, TensorType

__all__ = ["known_ints", "known_value", "tensor"]


def tensor(types: Types, position: int, what: str) -> TensorType:
    """The type of an input that must be there. Raises InputError when it is absent."""
    type_ = types[position] if position < len(types) else None
    if type_ is None:
        raise InputError(f"found no {what}, needed one at input {position}")
    return type_


def known_value(types: Types, values: Values, position: int, what: str) -> Array | None:
    """The value of a parameter input, None when it is absent. Raises DynamicShape when only the run will know it."""
    if position >= len(types) or types[position] is None:
        return None
    value = values[position] if position < len(values) else None
    if value is None:
        raise DynamicShape(f"found {what} computed at run time, needed them known from constants and shapes")
    return value


def known_ints(types: Types, values: Values, position: int, what: str) -> tuple[int, ...] | None:
    """As `known_value`, flattened to a tuple of int."""
    value = known_value(types, values, position, what)
    return None if value is None else tuple(int(v) for v in value.reshape(-1))
