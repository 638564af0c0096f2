"""Whether a value read from a text is of the type that an op's field has."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

__all__ = ["conforms", "field_types"]

_LARGEST = (1 << 63) - 1


_KNOWN: dict[str, Mapping[str, Any]] = {}


def field_types(kind: type) -> Mapping[str, Any]:
    """The types of a dataclass's fields by name."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in _KNOWN:
        _KNOWN[name] = typing.get_type_hints(kind)
    return _KNOWN[name]


def conforms(value: Any, wanted: Any) -> bool:
    """Whether ``value`` is of type ``wanted``: a class, a literal, a tuple of one type or of several, or one of several.

    Integers must fit 64 bits; they will do for floats.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (Union, types.UnionType):
        return any(conforms(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(conforms(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(conforms(item, one) for item, one in zip(value, arguments, strict=True))
    return _is_a(value, wanted)


def _is_a(value: Any, wanted: type) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return wanted in (int, float) and abs(value) <= _LARGEST
    if isinstance(value, enum.Enum):
        return isinstance(value, wanted)
    return type(value) is wanted
