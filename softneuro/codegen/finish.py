"""What happens to a vector of finished float32 sums on its way to memory: epilogue, rounding to what is kept, and store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softneuro.codegen.emit import byte_offset
from softneuro.codegen.functions import activation_value
from softneuro.codegen.storage import STORED_BYTES, Numbers, load_stored, quantisation_numbers, store_stored
from softneuro.codegen.target import Target
from softneuro.ops.epilogue import Epilogue

__all__ = ["FINISH_NUMBERS", "Kept", "kept_as", "store_finished"]

FINISH_NUMBERS = 4
"""float32 that `kept_as` reads for qint8: scale and zero point of the output, then those of the residual."""


@dataclass(frozen=True)
class Kept:
    """How results are kept, and with them the residual: as ``f32``, ``f16``, ``bf16`` or ``qint8``, with its numbers."""

    dtype: str = "f32"
    y: Numbers | None = None
    residual: Numbers | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of an element of y and of the residual."""
        return STORED_BYTES[self.dtype]


def kept_as(builder: Any, dtype: str, numbers: Any, lanes: int, epilogue: Epilogue) -> Kept:
    """How vectors of ``lanes`` results are kept as ``dtype``.

    numbers: of qint8, the address (or byte pointer) of `FINISH_NUMBERS` float32; read only there, and of the residual only
    if the epilogue has one.
    """
    if dtype != "qint8":
        return Kept(dtype)
    pointer = byte_offset(builder, numbers, 0)
    residual = quantisation_numbers(builder, byte_offset(builder, pointer, 8), lanes) if epilogue.residual else None
    return Kept(dtype, quantisation_numbers(builder, pointer, lanes), residual)


def store_finished(builder: Any, target: Target, epilogue: Epilogue, value: Any, y: Any, residual: Any, place: Any,
                   mask: Any = None, kept: Kept | None = None) -> None:
    """Store a float32 vector (with a mask, only its lanes) ``place`` bytes from y, through the epilogue.

    The epilogue's residual, if it has one, is read ``place`` bytes from ``residual``. kept: how y and the residual are
    kept, None for float32; ``place`` counts bytes of that. bfloat16 too small to be normal may be kept as 0.
    """
    kept = kept or Kept()

    def addend() -> Any:
        pointer = byte_offset(builder, residual, place)
        return load_stored(builder, target, pointer, kept.dtype, value.type.count, mask, kept.residual)

    result = builder.fadd(value, addend()) if epilogue.residual == "before" else value
    result = activation_value(builder, target, epilogue.activation, epilogue.parameters, result)
    result = builder.fadd(result, addend()) if epilogue.residual == "after" else result
    store_stored(builder, target, result, byte_offset(builder, y, place), kept.dtype, mask, kept.y, tiny=False)
