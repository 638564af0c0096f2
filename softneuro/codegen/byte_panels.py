"""How weights of 8 bits lie in panels for `byte_tile`, and what it reads beside them. Loads no compiler.

A step is four bytes of a row of the left side. A panel holds, for every step, `parts` elements of the target's
`integer_form` for each column: element g of part p belongs to byte ``p + g * parts`` of the step.

The columns of a panel are dealt to its vectors so that the instructions which pack results to bytes leave them in
the order of memory: in `vector_groups` of n vectors, lane 4 * p + e of vector j is column 4 * n * p + 4 * j + e.
"""

from __future__ import annotations

from softneuro.codegen.integer_forms import IntegerForm, integer_form
from softneuro.codegen.target import Target

__all__ = ["BYTE_NUMBERS", "COLUMN_NUMBERS", "STEP", "column_order", "is_scaled", "most_byte_rows", "parts_of", "rest_of",
           "step_bytes", "vector_groups"]

STEP = 4
"""Bytes of a row that a step multiplies."""
COLUMN_NUMBERS = 5
"""Four-byte numbers of each column: the int32 that its sums start from, then float32 factor and addend that make reals of
sums, and those for results that are kept as bytes (reals, or where `is_scaled` steps, always fewer than 2**31; the residual's
zero point included)."""
BYTE_NUMBERS = 6
"""float32 for results that are kept as bytes: the output's zero point and 1 / scale, what a byte of the residual counts, what
is added with a residual ``after`` (for its zero point), and the least and the largest byte."""


def parts_of(form: IntegerForm) -> int:
    """Into how many parts the bytes of a step are taken."""
    return STEP // form.group


def step_bytes(form: IntegerForm) -> int:
    """Bytes of a step in a column of a panel."""
    return parts_of(form) * form.step_bytes


def most_byte_rows(target: Target, nv: int) -> int:
    """Rows of the largest tile, nv vectors wide, that fits the registers."""
    form = integer_form(target)
    spare = 1 if parts_of(form) == 1 else 3  # the step of a row, and what is made of it before it is added
    return (target.registers - parts_of(form) * nv - spare) // nv


def rest_of(depth: int) -> int:
    """How the last step of a row reads no byte past its end.

    0: whole. 1 to 3: it is the only one, of so many bytes. 4: it ends with the row, and the weights of bytes that the
    step before has, too, are 0.
    """
    return 0 if depth % STEP == 0 else min(depth, STEP)


def vector_groups(nv: int) -> tuple[tuple[int, int], ...]:
    """The (first, count) of vectors that are packed together, up to four."""
    return tuple((first, min(4, nv - first)) for first in range(0, nv, 4))


def column_order(nv: int, target: Target) -> list[int]:
    """The column (within the panel) of every lane of its vectors, one vector after the other."""
    lanes = target.f32_lanes
    return [lanes * first + 4 * (count * p + j) + e for first, count in vector_groups(nv) for j in range(count)
            for p in range(lanes // 4) for e in range(4)]


def is_scaled(activation: str, residual: str) -> bool:
    """Whether an epilogue's results are computed in steps of the output: where its activation is bounds of the bytes."""
    return activation == "" or (activation in ("relu", "clip") and residual != "after")
