"""Products of 8-bit integers: shapes, zero points, packing and the launches that every such routine makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softneuro.codegen.integer_forms import IntegerForm, integer_form
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.matmul_shapes import Product, product_of, row_offsets
from softneuro.routines.routine import Built, Launch, Schedule, Word, scratch, source, table, target_of
from softneuro.routines.sizes import balanced, odd_lines, round_up
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["Side", "build_product", "constant_value", "integer_product", "integer_refusal", "integer_schedules",
           "optional_input", "pack_integers", "packed_bytes", "product_kernels", "zero_places"]

_BYTES = (DType.I8, DType.U8)
_WIDTHS = (4, 2, 3, 1)
"""How many vectors wide register tiles are, the default first where they have several rows."""
_FEWEST_ROWS = 4
"""Tiles of fewer rows load the right side too often to be the default."""
_SPARE_TERMS = 32
"""No tile has more rows: it reads the terms of all of its rows, also of those past the end."""
_AWKWARD = 1024
"""Rows a multiple of this many bytes apart fall into few sets of the first-level cache."""


@dataclass(frozen=True)
class Side:
    """Where the packed right side is once ``launches`` have run: words of `kernels.gemm_integer`, and bytes of scratch.

    terms: whether zero points may be left in the panels, so that sums of rows are needed; needed: where that is told.
    """

    panels: Word
    sides: Word
    needed: Word
    terms: bool
    launches: tuple[Launch, ...] = ()
    tables: tuple[Array, ...] = ()
    scratch: int = 0


def optional_input(problem: Problem, index: int) -> TensorType | None:
    """The type of an input that may be absent."""
    return problem.inputs[index] if index < len(problem.inputs) else None


def integer_product(problem: Problem) -> Product:
    """The product with all shapes made plain."""
    return product_of(replace(problem, op=MatMul(), inputs=problem.inputs[:2]))


def _row_zeros(problem: Problem) -> Shape | None:
    """The shape in which a's zero points broadcast to its rows, or None for at most one of them."""
    a, zero = problem.input(0), optional_input(problem, 2)
    if zero is None or zero.size == 1:
        return None
    return (*zero.shape, 1) if zero.rank == 1 and a.rank >= 2 else zero.shape


def integer_refusal(problem: Problem) -> str | None:
    """Why no routine multiplies these integers, or None."""
    for index, name in ((0, "left"), (1, "right")):
        operand, zero = problem.input(index), optional_input(problem, index + 2)
        if operand.dtype not in _BYTES:
            return f"found a {name} side of {operand.dtype}, needed i8 or u8"
        if operand.size == 0:
            return f"found a {name} side of shape {operand.shape}, needed at least one element"
        if zero is not None and zero.dtype is not operand.dtype:
            return f"found zero points of {zero.dtype} for a {name} side of {operand.dtype}, needed the same type"
    rows, right, (a, b) = _row_zeros(problem), optional_input(problem, 3), (problem.input(0), problem.input(1))
    if rows is not None and not _broadcasts(rows, (*a.shape[:-1], 1)):
        return f"found zero points of shape {rows} for the left side, needed one for each row"
    columns = (*b.shape[:-2], 1, b.shape[-1]) if b.rank >= 2 else ()
    if right is not None and right.size > 1 and not _broadcasts(right.shape, columns):
        return f"found zero points of shape {right.shape} for the right side, needed one for each column"
    product = integer_product(problem)
    tile_bytes = 2 * product.k * _SPARE_TERMS
    return f"found {tile_bytes} bytes of rows in a tile, needed less than 2^30" if tile_bytes >= 2**30 else None


def _broadcasts(shape: Shape, whole: Shape) -> bool:
    """Whether a tensor of ``shape`` broadcasts to ``whole``."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(size in (1, other) for size, other in pairs)


def integer_schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """mr, nv: rows and vectors of a tile. copy: rows are copied though they need not be."""
    product, form = integer_product(problem), integer_form(target)
    vectors = math.ceil(product.n / target.f32_lanes)
    awkward = product.m > 1 and product.k % _AWKWARD == 0 and _in_place(problem, form)
    tiles = [(balanced(product.m, most), nv) for nv in _WIDTHS if nv <= vectors and (most := form.most_rows(target, nv)) >= 1]
    tiles.sort(key=lambda tile: tile[0] < min(product.m, _FEWEST_ROWS))
    return tuple({"mr": mr, "nv": nv, "copy": copy} for mr, nv in tiles for copy in ((0, 1) if awkward else (0,)))


def _in_place(problem: Problem, form: IntegerForm) -> bool:
    """Whether a tile can read the rows of a as they lie: unsigned bytes, in whole steps."""
    a = problem.input(0)
    return form.narrow and a.dtype is DType.U8 and a.shape[-1] % form.group == 0


def zero_places(lead: Shape, shape: Shape) -> Array:
    """Which zero point of a tensor of ``shape`` belongs to each element of ``lead``, to which it broadcasts."""
    numbers = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return np.broadcast_to(numbers, lead).reshape(-1)


def pack_integers(form: IntegerForm, width: int, b: Array, zero: Array | None) -> tuple[Array, Array, Array]:
    """Constant matrices (count, k, n) in panels of ``width`` columns, their sides, and whether terms are needed.

    zero broadcasts to b. As `kernels.integer_panels` makes them, except that bytes are stored less their zero point where
    all of them allow it, so that no terms are needed: always for symmetric quantisation.
    """
    count, k, n = b.shape
    real, left = b.astype(np.int16), np.zeros((count, 1, n), np.int16)
    if zero is not None:
        real -= zero.astype(np.int16)
    panels, steps = math.ceil(n / width), form.steps(k)
    sides = aligned_empty((count, 2, panels * width), np.int32)
    sides[..., n:] = 0
    sides[:, 0, :n] = real.sum(axis=1, dtype=np.int32)
    if form.narrow and (real.min() < -128 or real.max() > 127):
        left -= 0 if b.dtype == np.int8 else 128
        left += 0 if zero is None else zero.astype(np.int16)
        real += left
    sides[:, 1, :n] = left[:, 0]
    element = np.dtype(f"u{form.bytes}")
    padded = np.zeros((count, steps * form.group, panels * width), element)
    padded[:, :k, :n] = real.astype(element)
    return _grouped(form, padded, width), sides, np.array([left.any()], np.int64)


def _grouped(form: IntegerForm, values: Array, width: int) -> Array:
    """(count, steps * group, panels * width) as [count][panel][step][width], an integer for each group: low bits first."""
    count, depth, columns = values.shape
    grouped = values.reshape(count, depth // form.group, form.group, columns)
    words = grouped[:, :, -1].astype(f"u{form.step_bytes}")
    for position in reversed(range(form.group - 1)):
        words <<= 8 * form.bytes
        words |= grouped[:, :, position]
    by_panel = words.reshape(count, -1, columns // width, width).transpose(0, 2, 1, 3)
    packed = aligned_empty(by_panel.shape, by_panel.dtype)
    packed[...] = by_panel
    return packed


def product_kernels(problem: Problem, schedule: Schedule, target: Target) -> tuple[KernelSpec, KernelSpec]:
    """What makes rows ready, which not all sizes need, and the tiles."""
    form, signed = integer_form(target), problem.input(0).dtype is DType.I8
    tiles = KernelSpec.of("gemm_integer", form=form.name, mr=schedule["mr"], nv=schedule["nv"], signed=signed and form.narrow)
    return KernelSpec.of("integer_rows", form=form.name, signed=signed), tiles


def build_product(problem: Problem, schedule: Schedule, target: Target, right: Side) -> Built:
    """The launches of a product whose right side is packed: what is to be done to rows, then the tiles."""
    product, form = integer_product(problem), integer_form(target)
    a, zero, row_zeros = problem.input(0), optional_input(problem, 2), _row_zeros(problem)
    ready, tiles = product_kernels(problem, schedule, target)
    rows = product.a_count * product.m
    copy = bool(schedule["copy"]) or not _in_place(problem, form)
    row_bytes = odd_lines(product.k * form.bytes) if copy else product.k
    terms = form.narrow and (right.terms or row_zeros is not None)
    always = np.array([1], np.int64)
    tables = [*right.tables, row_offsets(product.m, schedule["mr"], row_bytes),
              np.stack([product.a_index, product.b_index], axis=1).astype(np.int64), always]
    offsets, batches, told = (table(len(right.tables) + i) for i in range(3))
    needed = told if row_zeros is not None else right.needed
    places: Word = 0
    if row_zeros is not None:
        places = table(len(tables))
        tables.append(zero_places((*a.shape[:-1], 1), row_zeros).astype(np.int32))
    copied, summed = scratch(right.scratch), scratch(right.scratch + (rows * row_bytes if copy else 0))
    zero_word: Word = 0 if zero is None else source(2)
    launches = list(right.launches)
    if copy or terms:
        words = (source(0), copied if copy else 0, summed if terms else 0, needed, rows, product.k, row_bytes, zero_word, places)
        launches.append(Launch(ready, words))
    own_zero = zero_word if form.narrow and row_zeros is None else 0
    launches.append(Launch(tiles, (
        copied if copy else source(0), target_of(0), right.panels, right.sides, offsets, batches, summed if terms else 0,
        needed, own_zero, product.batches, product.m, form.steps(product.k), product.n, row_bytes,
    )))  # fmt: skip
    used = right.scratch + rows * row_bytes * copy + 8 * (rows + _SPARE_TERMS) * terms
    return Built(launches=tuple(launches), tables=tuple(tables), scratch=used)


def packed_bytes(product: Product, form: IntegerForm, width: int) -> tuple[int, int]:
    """Bytes of all packed matrices of b, and of their sides."""
    columns = product.b_count * round_up(product.n, width)
    return columns * form.steps(product.k) * form.step_bytes, 8 * columns


def constant_value(values: Sequence[Any], index: int) -> Array | None:
    """A constant among what `Routine.pack` is given, or None where there is none."""
    return values[index] if index < len(values) else None
