"""What routines on bytes must give to the bit: integer sums in numpy, float32 from there, and problems with quantisations."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from oracle import Case

from softneuro.codegen.target import Target
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import Epilogue
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation, encoded
from softneuro.routines.byte_weights import signed_bytes
from softneuro.types import Array, DType, Format, Layout

BYTES = DType.QINT8


_SCHEDULES = {"avx2": 2, "sse4": 1}


def chosen(found: list[Case]) -> list[Case]:
    """The cases without those that would only compile more: 16-bit floats in more than one tile, narrow targets in many."""
    taken = []
    for (_, dtype, name), group in groupby(found, lambda case: (id(case[1]), case[2].outputs[0].dtype, case[4].name)):
        taken += list(group)[: 1 if dtype is DType.BF16 else _SCHEDULES.get(name)]
    return taken


def bytes_of(x: Array, quantisation: Quantisation | None) -> Array:
    """int64 bytes of a tensor in logical order."""
    assert quantisation is not None
    return encoded(x, Format(BYTES, Layout.PLAIN), quantisation).astype(np.int64)


def exact_sums(problem: Problem, values: list[Array | None]) -> tuple[Array, Array]:
    """The int64 sums of a convolution or product of bytes with weights rounded as by `signed_bytes`, and the columns' scales."""
    x, w = values[0], values[1]
    assert x is not None and w is not None
    quantisation = problem.input_quantisation(0)
    assert quantisation is not None
    centred = bytes_of(x, quantisation) - quantisation.zero
    op = problem.op
    if isinstance(op, Conv):
        rounded, scale = signed_bytes(w)
        plain = Conv(op.strides, op.pads, op.dilations, op.groups)
        return plain.reference([centred, rounded.astype(np.int64)])[0], scale.reshape(-1, *(1,) * (x.ndim - 2))
    b = w.reshape(-1, 1) if w.ndim == 1 else w if op.transpose_b else w.swapaxes(-1, -2)  # type: ignore[attr-defined]
    rounded, scale = signed_bytes(b.reshape(-1, b.shape[-1]))
    sums = centred @ rounded.astype(np.int64).reshape(b.shape).swapaxes(-1, -2)
    return sums, scale.reshape(*b.shape[:-2], 1, b.shape[-2]) if x.ndim > 1 else scale


def added(problem: Problem, target: Target, sums: Array, factor: Array, addend: Array) -> Array:
    """float32 of sums times factor plus addend: rounded once where the target fuses them, else twice."""
    real = sums.astype(np.float32)
    if target.fma:
        return (real.astype(np.float64) * factor + addend).astype(np.float32)
    return real * factor.astype(np.float32) + addend.astype(np.float32)


def broadcast_bias(problem: Problem, values: list[Array | None], columns: Array) -> Array:
    """The bias in the shape of the columns' scales."""
    bias = values[2] if problem.op.bias else None  # type: ignore[attr-defined]
    if bias is None:
        return np.zeros_like(columns)
    return bias.reshape(columns.shape) if isinstance(problem.op, Conv) else bias


def expected(problem: Problem, values: list[Array | None], target: Target, *, as_bytes: bool) -> Array:
    """The result of an epilogue without a residual that is none, relu or clip: bytes exactly, or float32."""
    sums, scale = exact_sums(problem, values)
    x, y = problem.input_quantisation(0), problem.output_quantisation()
    assert x is not None
    unit = scale * np.float32(x.scale)
    bias = broadcast_bias(problem, values, scale)
    epilogue: Epilogue = problem.op.epilogue  # type: ignore[attr-defined]
    if not as_bytes:
        return epilogue.reference(added(problem, target, sums, unit, bias), None)
    assert y is not None
    step = np.float32(y.scale)
    steps = added(problem, target, sums, unit / step, (bias.astype(np.float64) / float(step)).astype(np.float32))
    found = np.clip(np.rint(steps.astype(np.float64)) + y.zero, 0, 255)
    low, high = {"relu": (0.0, np.inf), "clip": epilogue.parameters}.get(epilogue.activation, (-np.inf, np.inf))
    bounds = [np.clip(np.rint(np.float32(b) / step) + y.zero, 0, 255) for b in (low, high)]
    return np.clip(found, *bounds).astype(np.uint8)


def real_result(problem: Problem, values: list[Array | None]) -> Array:
    """The result in float64 for the rounded operands, of any epilogue."""
    sums, scale = exact_sums(problem, values)
    x = problem.input_quantisation(0)
    assert x is not None
    real = sums * (scale.astype(np.float64) * float(np.float32(x.scale))) + broadcast_bias(problem, values, scale)
    epilogue: Epilogue = problem.op.epilogue  # type: ignore[attr-defined]
    residual = values[-1] if epilogue.residual else None
    return epilogue.reference(real, None if residual is None else residual.astype(np.float64))
