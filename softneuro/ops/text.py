"""An op as text and back: ``conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), epilogue='relu')``.

Fields at their default are left out. Values are Python literals; data types and epilogues are written as their
own texts in quotes.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from typing import Any

from softneuro.ops.base import Op
from softneuro.ops.epilogue import Epilogue
from softneuro.ops.field_types import conforms, field_types
from softneuro.ops.table import OPS
from softneuro.types import DType

__all__ = ["format_op", "parse_op"]


def _encode(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf and nan are no Python literals
    return str(value) if isinstance(value, (Epilogue, DType)) else value


def format_op(op: Op) -> str:
    """The op's text form. Ops that hold graphs (If, Loop, Scan) have none: they raise TypeError."""
    parts = []
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if value != field.default:
            parts.append(f"{field.name}={_encode(value)!r}")
    return f"{op.name}({', '.join(parts)})"


def _decode(annotation: str, value: Any) -> Any:
    if annotation == "Epilogue":
        return Epilogue.parse(value)
    if annotation == "DType":
        return DType(value)
    if annotation == "float" and isinstance(value, str):
        return float(value)
    return value


def parse_op(text: str) -> Op:
    """Inverse of `format_op`. Raises ValueError that says what was found and needed."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError) as error:  # MemoryError: brackets nested too deep
        raise ValueError(f"op text {text!r}: needed a form like conv(strides=(1, 1), ...)") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"op text {text!r}: needed a form like conv(strides=(1, 1), ...)")
    kind = OPS.get(call.func.id)
    if kind is None:
        raise ValueError(f"op text {text!r}: found {call.func.id!r}, needed the name of an op")
    annotations = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg not in annotations:
            known = ", ".join(annotations)
            raise ValueError(f"op text {text!r}: {kind.name} has no parameter {keyword.arg!r}, needed one of {known}")
        try:
            value = _decode(annotations[keyword.arg], ast.literal_eval(keyword.value))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            needed = annotations[keyword.arg]
            raise ValueError(f"op text {text!r}: found no such value for {keyword.arg}, needed {needed}") from error
        if not conforms(value, field_types(kind)[keyword.arg]):
            raise ValueError(f"op text {text!r}: found {keyword.arg}={value!r}, needed {annotations[keyword.arg]}")
        values[keyword.arg] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"op text {text!r}: {error}") from error
