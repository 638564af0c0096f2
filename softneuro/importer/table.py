"""Which family's converter takes which operator: the one list, by domain and operator type."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.importer import (
    control,
    conv,
    conv_transpose,
    matmul,
    ml,
    movement,
    norm,
    pointwise,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
    view,
)
from softneuro.importer.node import Converter, Converters

__all__ = ["CONVERTERS", "TAKES_ANY_ELEMENT"]

_FAMILIES: Mapping[str, tuple[Converters, ...]] = {
    "": (
        pointwise.CONVERTERS,
        conv.CONVERTERS,
        conv_transpose.CONVERTERS,
        matmul.CONVERTERS,
        pool.CONVERTERS,
        recurrent.CONVERTERS,
        reduce.CONVERTERS,
        norm.CONVERTERS,
        movement.CONVERTERS,
        resize.CONVERTERS,
        view.CONVERTERS,
        shape.CONVERTERS,
        control.CONVERTERS,
    ),
    "ai.onnx.ml": (ml.CONVERTERS,),
    "com.microsoft": (pointwise.MICROSOFT, conv.MICROSOFT, matmul.MICROSOFT),
}

CONVERTERS: Mapping[tuple[str, str], Converter] = {
    (domain, op_type): converter
    for domain, families in _FAMILIES.items()
    for family in families
    for op_type, converter in family.items()
}

TAKES_ANY_ELEMENT = {"Constant", "Identity", "If", "Loop", "Optional", "Scan"}
"""Operators that our layers run even on elements numpy has no type for, because they only pass them on."""
