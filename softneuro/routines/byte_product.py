"""What routines share that multiply tensors kept as bytes with constant weights: refusals, formats, tiles, packing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.byte_panels import (
    BYTE_NUMBERS,
    COLUMN_NUMBERS,
    STEP,
    column_order,
    is_scaled,
    most_byte_rows,
    parts_of,
    rest_of,
)
from softneuro.codegen.integer_forms import integer_form
from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.conv import Conv
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.byte_weights import signed_bytes
from softneuro.routines.linear import bias_of, packed_signature
from softneuro.routines.routine import Schedule, Signature
from softneuro.routines.sizes import balanced, round_up
from softneuro.types import Array, DType, Format, Layout

__all__ = ["byte_columns", "byte_numbers", "byte_panels", "byte_signatures", "byte_tiles", "last_step", "needs_bytes",
           "packed_weights", "reject_deep"]

NUMBERS_OF_VECTORS = (4, 2, 3, 1)
"""How many vectors wide register tiles are, the default first."""
_DEEPEST = 1 << 16  # products of a byte and a signed byte whose sum fits 32 bits
_MOST_PRODUCT, _MOST_ADDEND, _MOST_RATIO = 2.0**30, 2.0**29, 2.0**20  # steps: together they stay below 2**31


def _op(problem: Problem) -> Conv | MatMul:
    return cast(Conv | MatMul, problem.op)


def _residual(problem: Problem) -> Quantisation | None:
    return problem.input_quantisation(len(problem.inputs) - 1) if _op(problem).epilogue.residual else None


def needs_bytes(problem: Problem) -> str | None:
    """The refusal of routines whose input 0 is bytes."""
    return "found no quantisation of the input, needed one" if problem.input_quantisation(0) is None else None


def reject_deep(depth: int) -> str | None:
    """The refusal where the sums of ``depth`` products could leave 32 bits."""
    return f"found sums of {depth} products, needed at most {_DEEPEST}" if depth > _DEEPEST else None


def byte_signatures(problem: Problem, x: Format, layout: Layout) -> tuple[Signature, ...]:
    """x in its format, and the output (and with it the residual) as bytes where their quantisations are known, or as floats."""
    known = problem.output_quantisation() and (not _op(problem).epilogue.residual or _residual(problem))
    dtypes = ((DType.QINT8,) if known else ()) + (DType.F32, DType.BF16)
    return tuple(packed_signature(problem, x, Format(dtype, layout)) for dtype in dtypes)


def byte_tiles(rows: int, columns: int, target: Target) -> tuple[Schedule, ...]:
    """Tiles of mr (balanced) rows by nv vectors that fit the registers, those that pad the columns least first."""
    vectors = math.ceil(columns / target.f32_lanes)
    widths = sorted(NUMBERS_OF_VECTORS, key=lambda nv: round_up(vectors, nv))
    found: dict[tuple[int, int], Schedule] = {}
    for nv in widths:
        most = most_byte_rows(target, nv)
        if nv <= vectors and most >= 1:
            mr = balanced(rows, most)
            found.setdefault((mr, nv), {"mr": mr, "nv": nv})
    return tuple(found.values())


def last_step(depth: int) -> int:
    """Where the last step of a row of ``depth`` bytes begins."""
    return max(0, depth - STEP)


def byte_panels(weights: Array, nv: int, target: Target, *, whole: bool = False) -> Array:
    """int8 weights (count, taps, depth, n) as [count][panel][tap][step][part][column][element], see `codegen.byte_panels`.

    whole: rows are readable past their end, so that the last step is like the others.
    """
    form, lanes = integer_form(target), target.f32_lanes
    count, taps, depth, columns = weights.shape
    width, steps, parts = nv * lanes, math.ceil(depth / STEP), parts_of(form)
    panels = math.ceil(columns / width)
    filled = np.zeros((count, taps, steps * STEP, panels * width), np.int8)
    filled[:, :, :depth, :columns] = weights
    if not whole and rest_of(depth) == STEP:
        early = steps * STEP - depth  # bytes of the last step that the one before has, too
        filled[:, :, -STEP:] = np.roll(filled[:, :, -STEP:], early, axis=2)
    order = np.asarray(column_order(nv, target))
    ordered = filled.reshape(count, taps, steps, form.group, parts, panels, width)[..., order]
    result = aligned_empty((count, panels, taps, steps, parts, width, form.group), np.dtype(f"i{form.bytes}"))
    result[...] = ordered.transpose(0, 5, 1, 2, 4, 6, 3)
    return result


def byte_columns(problem: Problem, weights: Array, scale: Array, bias: Array, nv: int, target: Target) -> Array:
    """The numbers of each column as [count][panel][number][column], see `codegen.byte_panels`.

    weights: int8 (count, products, n); scale and bias: float32 (count, n).
    """
    x, y, residual = problem.input_quantisation(0), problem.output_quantisation(), _residual(problem)
    assert x is not None
    epilogue = _op(problem).epilogue
    unit = scale * np.float32(x.scale)
    scaled = is_scaled(epilogue.activation, epilogue.residual)
    addend = bias.astype(np.float64)
    if residual is not None and (epilogue.residual == "before" or scaled):
        addend = addend - residual.zero * float(np.float32(residual.scale))
    start = np.multiply(weights.sum(axis=1, dtype=np.int32), np.int32(-x.zero))
    factor = unit
    if y is not None and scaled:
        step = np.float32(y.scale)
        factor, addend = _within_words(unit, step, addend / float(step), _furthest(weights, x.zero))
    floats = [array.astype(np.float32).view(np.int32) for array in (unit, bias, factor, addend)]
    listed = np.stack([start, *floats], axis=1)
    count, columns, width = scale.shape[0], scale.shape[1], nv * target.f32_lanes
    panels = math.ceil(columns / width)
    filled = np.zeros((count, COLUMN_NUMBERS, panels * width), np.int32)
    filled[..., :columns] = listed
    ordered = filled.reshape(count, COLUMN_NUMBERS, panels, width)[..., np.asarray(column_order(nv, target))]
    result = aligned_empty((count, panels, COLUMN_NUMBERS, width), np.int32)
    result[...] = ordered.transpose(0, 2, 1, 3)
    return result


def _furthest(weights: Array, zero: int) -> Array:
    """How far from 0 the sums of weights (count, products, n) times bytes less ``zero`` can be."""
    above = np.sum(np.maximum(weights, 0), axis=1, dtype=np.int64)
    below = np.sum(np.minimum(weights, 0), axis=1, dtype=np.int64)
    most, least = above * (255 - zero) - below * zero, below * (255 - zero) - above * zero
    furthest: Array = np.maximum(most, -least)
    return furthest


def _within_words(unit: Array, step: np.float32, addend: Array, furthest: Array) -> tuple[Array, Array]:
    """Factors and addends in steps, made smaller together where results could leave 32 bits.

    That is where a step is so small that all but a millionth of the possible sums saturate; these still do.
    """
    with np.errstate(over="ignore", divide="ignore"):
        factor = unit / step
        exact = unit.astype(np.float64) / float(step)
        shrink = np.minimum(_MOST_PRODUCT / (exact * np.maximum(furthest, 1)), _MOST_ADDEND / np.abs(addend))
    return np.where(shrink < 1, exact * shrink, factor), np.where(shrink < 1, addend * shrink, addend)


def byte_numbers(problem: Problem) -> Array:
    """The numbers of `codegen.byte_panels.BYTE_NUMBERS`."""
    epilogue, y, residual = _op(problem).epilogue, problem.output_quantisation(), _residual(problem)
    if y is None:
        return np.zeros(BYTE_NUMBERS, np.float32)
    low, high = {"relu": (0.0, math.inf), "clip": epilogue.parameters}.get(epilogue.activation, (-math.inf, math.inf))
    bounds = [np.clip(np.rint(np.float32(bound) / np.float32(y.scale)) + y.zero, 0, 255) for bound in (low, high)]
    ratio = shift = 0.0
    if residual is not None:
        real = epilogue.residual == "before" and not is_scaled(epilogue.activation, epilogue.residual)
        ratio = min(residual.scale / (1.0 if real else y.scale), _MOST_RATIO)
        shift = -residual.zero * ratio
    return np.array([y.zero, 1.0 / y.scale, ratio, shift, *bounds], np.float32)


def packed_weights(problem: Problem, weights: Array, values: Sequence[Array | None], nv: int, target: Target, *,
                    whole: bool = False) -> tuple[Array, ...]:
    """Panels, columns and numbers for weights (groups, n, taps, depth) in float32."""
    groups, columns, taps, depth = weights.shape
    rounded, scale = signed_bytes(weights.reshape(groups * columns, taps, depth))
    rounded = rounded.reshape(weights.shape)
    shared = isinstance(problem.op, MatMul)  # the bias: by all matrices, while groups of filters have their own
    bias = bias_of(problem, values, columns if shared else groups * columns).astype(np.float32).reshape(-1, columns)
    listed = rounded.reshape(groups, columns, taps * depth).transpose(0, 2, 1)
    return (
        byte_panels(rounded.transpose(0, 2, 3, 1), nv, target, whole=whole),
        byte_columns(problem, listed, scale.reshape(groups, columns), np.broadcast_to(bias, (groups, columns)), nv, target),
        byte_numbers(problem),
    )
