"""Which family's converter takes which operator: the one list, by domain and operator type."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.importer import (
    contributed,
    control,
    conv,
    conv_transpose,
    dynamic_quantised,
    einsum,
    indexing,
    integer_conv,
    matmul,
    ml,
    movement,
    norm,
    pointwise,
    pool,
    quantised,
    quantised_layers,
    recurrent,
    reduce,
    resize,
    sampling,
    shape,
    trees,
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
        einsum.CONVERTERS,
        pool.CONVERTERS,
        quantised.CONVERTERS,
        quantised_layers.CONVERTERS,
        dynamic_quantised.CONVERTERS,
        integer_conv.CONVERTERS,
        recurrent.CONVERTERS,
        reduce.CONVERTERS,
        norm.CONVERTERS,
        movement.CONVERTERS,
        indexing.CONVERTERS,
        resize.CONVERTERS,
        sampling.CONVERTERS,
        view.CONVERTERS,
        shape.CONVERTERS,
        control.CONVERTERS,
        contributed.SIMPLIFIED,
    ),
    "ai.onnx.ml": (ml.CONVERTERS, trees.CONVERTERS),
    "com.microsoft": (pointwise.MICROSOFT, conv.MICROSOFT, matmul.MICROSOFT, quantised_layers.MICROSOFT,
                      dynamic_quantised.MICROSOFT, contributed.MICROSOFT),
}

CONVERTERS: Mapping[tuple[str, str], Converter] = {
    (domain, op_type): converter
    for domain, families in _FAMILIES.items()
    for family in families
    for op_type, converter in family.items()
}

TAKES_ANY_ELEMENT = {"Constant", "DequantizeLinear", "Identity", "If", "Loop", "Optional", "Scan"}
"""Operators that our layers run even on elements numpy has no type for, because they only pass them on."""
