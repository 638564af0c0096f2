"""What happens to a vector of finished sums on its way to memory: epilogue and store."""

from __future__ import annotations

from typing import Any

from softneuro.codegen.emit import byte_offset, load_lanes, store_lanes
from softneuro.codegen.functions import activation_value
from softneuro.codegen.target import Target
from softneuro.ops.epilogue import Epilogue

__all__ = ["store_finished"]


def store_finished(builder: Any, target: Target, epilogue: Epilogue, value: Any, y: Any, residual: Any, place: Any,
                   mask: Any = None) -> None:
    """Store a vector (with a mask, only its lanes) ``place`` bytes from y, through the epilogue.

    The epilogue's residual, if it has one, is read ``place`` bytes from ``residual``.
    """

    def addend() -> Any:
        return load_lanes(builder, byte_offset(builder, residual, place), value.type, mask)

    result = builder.fadd(value, addend()) if epilogue.residual == "before" else value
    result = activation_value(builder, target, epilogue.activation, epilogue.parameters, result)
    result = builder.fadd(result, addend()) if epilogue.residual == "after" else result
    store_lanes(builder, result, byte_offset(builder, y, place), mask)
