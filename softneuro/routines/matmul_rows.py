"""The left side of a matrix product as rows that a tile can read: in place, or copied to scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.ops.matmul import MatMul
from softneuro.problem import Problem
from softneuro.routines.matmul_shapes import Product
from softneuro.routines.routine import Address, Launch, Schedule, scratch, source
from softneuro.routines.sizes import odd_lines

__all__ = ["Rows", "rows_of", "with_copies"]

_AWKWARD = 1024
"""Rows a multiple of this many bytes apart fall into few sets of the first-level cache."""


@dataclass(frozen=True)
class Rows:
    """Where a's rows are once ``launches`` have run; ``scratch``: bytes at the start of the scratch memory."""

    launches: tuple[Launch, ...]
    word: Address
    row_bytes: int
    matrix_bytes: int
    scratch: int


def _transposed(problem: Problem) -> bool:
    return cast(MatMul, problem.op).transpose_a and problem.input(0).rank >= 2


def rows_of(problem: Problem, product: Product, copy: bool, itemsize: int = 4) -> Rows:
    """a's rows in place, or with ``copy`` in scratch, an odd number of cache lines apart and untransposed.

    itemsize: bytes of an element of a, 4 for copies.
    """
    if not copy:
        return Rows((), source(0), itemsize * product.k, itemsize * product.k * product.m, 0)
    row_bytes = odd_lines(4 * product.k)
    words = (source(0), scratch(), product.a_count, product.m, product.k, row_bytes)
    launch = Launch(KernelSpec.of("matmul_rows", transpose=_transposed(problem)), words)
    matrix_bytes = row_bytes * product.m
    return Rows((launch,), scratch(), row_bytes, matrix_bytes, matrix_bytes * product.a_count)


def with_copies(problem: Problem, product: Product, schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """The schedules with a number ``copy``: 1 for a transposed, both for rows at awkward distances, else 0."""
    if _transposed(problem):
        choices: tuple[int, ...] = (1,)
    else:
        choices = (0, 1) if product.m > 1 and 4 * product.k % _AWKWARD == 0 else (0,)
    return tuple({**schedule, "copy": copy} for schedule in schedules for copy in choices)
