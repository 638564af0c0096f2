"""What routines of convolutions and matrix products share: refusals, signatures, register tiles and packing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.formats import reject_unless_f32
from softneuro.routines.narrow import numbers_of
from softneuro.routines.routine import Address, Schedule, Signature, source
from softneuro.routines.sizes import balanced
from softneuro.types import Array, DType, Format

__all__ = ["NUMBERS_OF_VECTORS", "bias_of", "finish_numbers", "finished_dtypes", "has_constant_weights", "itemsizes",
           "packed_signature", "panels_of", "register_tiles", "reject_convolution", "reject_large_image",
           "reject_operands", "residual_word", "weights_of"]

NUMBERS_OF_VECTORS = (2, 3, 4, 1)
"""How many vectors wide register tiles are, the default first."""
_MOST_IMAGE_BYTES = 1 << 31
"""Tables hold offsets into an image as int32."""


def _op(problem: Problem) -> Conv | ConvTranspose | MatMul:
    return cast(Conv | ConvTranspose | MatMul, problem.op)


def reject_operands(problem: Problem) -> str | None:
    """Why no routine multiplies the operands: the kernels are for float32 and sum at least one product."""
    a, b, op = problem.input(0), problem.input(1), _op(problem)
    needed = 2 + op.bias + bool(op.epilogue.residual)
    if len(problem.inputs) != needed:
        return f"found {len(problem.inputs)} inputs, needed {needed}"
    if 0 in (a.size, b.size):
        return f"found operands of shapes {a.shape} and {b.shape}, needed at least one element"
    return reject_unless_f32(problem)


def has_constant_weights(problem: Problem) -> bool:
    """Whether input 1 and the bias, if there is one, are known before the run."""
    return problem.constant[1] and (not _op(problem).bias or problem.constant[2])


def reject_convolution(problem: Problem) -> str | None:
    """What every routine of (transposed) convolution needs: proper operands, axes, constant weights, a plain residual."""
    reason = reject_operands(problem)
    if reason is not None:
        return reason
    if problem.input(0).rank < 3:
        return f"found {problem.input(0)} without spatial axes, needed 1 or more"
    if not has_constant_weights(problem):
        return "found weights that are computed at run time, needed constants"
    if _op(problem).epilogue.residual and problem.inputs[-1] != problem.outputs[0]:
        return f"found a residual of {problem.inputs[-1]}, needed {problem.outputs[0]}"
    return None


def reject_large_image(problem: Problem) -> str | None:
    """The refusal of routines whose tables hold offsets into one image of the input."""
    nbytes = 4 * math.prod(problem.input(0).shape[1:])
    return f"found an image of {nbytes} bytes, needed less than 2^31" if nbytes >= _MOST_IMAGE_BYTES else None


def packed_signature(problem: Problem, x: Format, y: Format, residual: Format | None = None) -> Signature:
    """Input 0 and output in their formats, weights and bias taken by the packing; the residual is like y unless given."""
    inputs: list[Format | None] = [x] + [None] * (len(problem.inputs) - 1)
    if _op(problem).epilogue.residual:
        inputs[-1] = residual or y
    return Signature(tuple(inputs), (y,))


def itemsizes(signature: Signature) -> tuple[int, int]:
    """Bytes of an element of input 0 and of the output."""
    x = signature.inputs[0]
    assert x is not None
    return x.dtype.itemsize, signature.outputs[0].dtype.itemsize


def residual_word(problem: Problem) -> Address | int:
    """The address of the residual, or 0 without one."""
    return source(len(problem.inputs) - 1) if _op(problem).epilogue.residual else 0


def register_tiles(rows: int, vectors: int, target: Target,
                   widths: Sequence[int] = NUMBERS_OF_VECTORS) -> tuple[Schedule, ...]:
    """Tiles of mr (balanced) rows by nv vectors that fit the registers, no wider than ``vectors``, in widths' order."""
    found: dict[tuple[int, int], Schedule] = {}
    for nv in widths:
        most = target.most_rows(nv)
        if nv <= vectors and most >= 1:
            mr = balanced(rows, most)
            found.setdefault((mr, nv), {"mr": mr, "nv": nv})
    return tuple(found.values())


def weights_of(values: Sequence[Array | None]) -> Array:
    """The weights among what `Routine.pack` is given."""
    weights = values[1]
    assert weights is not None
    return weights


def bias_of(problem: Problem, values: Sequence[Array | None], count: int) -> Array:
    """The bias of ``count`` elements, zeros without one."""
    if not _op(problem).bias:
        return np.zeros(count, np.float32)
    bias = values[2]
    assert bias is not None
    return bias


def finished_dtypes(problem: Problem) -> tuple[DType, ...]:
    """What a routine that computes in float32 may keep its output as, and the residual with it: float32 first."""
    quantisations = [problem.output_quantisation()]
    if _op(problem).epilogue.residual:
        quantisations.append(problem.input_quantisation(len(problem.inputs) - 1))
    return (DType.F32, DType.BF16) if None in quantisations else (DType.F32, DType.BF16, DType.QINT8)


def finish_numbers(problem: Problem) -> Array:
    """float32 scale and zero point of the output, then of the residual, as `kept_as` reads them."""
    residual = problem.input_quantisation(len(problem.inputs) - 1) if _op(problem).epilogue.residual else None
    return np.concatenate([numbers_of(problem.output_quantisation()), numbers_of(residual)])


def panels_of(values: Array, width: int) -> Array:
    """(count, *depth, n) as [count][panel][*depth][width] float32 on a cache line, the last panel filled with zeros."""
    count, *depth, columns = values.shape
    panels = math.ceil(columns / width)
    result = aligned_empty((count, panels, *depth, width))
    result[:, -1] = 0.0
    for panel in range(panels):
        part = values[..., panel * width : (panel + 1) * width]
        result[:, panel, ..., : part.shape[-1]] = part
    return result
