"""Constant weights kept as bfloat16 for routines of matrix products, and what their kernels are told of types."""

from __future__ import annotations

import numpy as np

from softneuro.codegen.operands import Operands
from softneuro.memory import aligned_empty
from softneuro.routines.routine import Signature
from softneuro.types import Array, DType

__all__ = ["brain_literals", "brain_panels_of"]


def brain_literals(signature: Signature, operands: Operands, depth: int) -> dict[str, str | bool]:
    """Literals of the `KernelSpec` of a product over ``depth`` elements: data types, and whether it ends with half a step."""
    return {"found": operands.x, "weights": operands.weights, "kept": signature.outputs[0].dtype.value,
            "odd": operands.is_odd(depth)}


def brain_panels_of(values: Array, width: int, operands: Operands) -> Array:
    """(count, *taps, depth, n) as bfloat16 [count][panel][*taps][step][width], in pairs [...][step][width][2].

    Rounded to nearest, ties to even; on a cache line, missing places zero; the result is of uint16, bfloat16's bits.
    """
    count, *taps, depth, columns = values.shape
    steps, panels = operands.steps(depth), (columns + width - 1) // width
    together = 2 if operands.in_pairs else 1
    result = aligned_empty((count, panels, *taps, steps, width, together), np.uint16)
    result[...] = 0
    bits = values.astype(DType.BF16.numpy).view(np.uint16)
    for panel in range(panels):
        part = bits[..., panel * width : (panel + 1) * width]
        for place in range(min(together, depth)):
            rows = part[..., place::together, :]
            result[:, panel, ..., : rows.shape[-2], : rows.shape[-1], place] = rows
    return result
