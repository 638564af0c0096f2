"""Rows of bytes made ready for `gemm_integer`: as the form's elements, and what corrects their products for zero points.

Words: 0 a (bytes, row-major), 1 destination (or 0: the rows are good as they are), 2 terms (int32 [row][2], or 0), 3 where an
int64 says whether terms are needed, 4 rows, 5 k, 6 bytes of a row of the destination, 7 zero points (or 0 for none), 8 which
of them belongs to each row (int32, or 0: all have the first).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.integer_forms import FORMS
from softneuro.codegen.integer_lanes import integer_lanes
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.scalars import integer_access
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, form: str, signed: bool) -> Callable[[int, int, int], None]:
    """The kernel for bytes that are ``signed`` or not.

    Rows of 16-bit elements hold a minus its zero point. Rows of bytes hold a, plus 128 when it is signed; their terms are
    the negated zero point of the row, where rows have their own, and the negated sum of the row.
    """
    chosen = FORMS[form]
    v = integer_lanes(target, chosen, signed)
    load, load_n, store, splat, add, sub = v.load, v.load_n, v.store_elements, v.splat, v.add, v.sub
    across, lanes, size, narrow = v.sum, v.lanes, chosen.bytes, chosen.narrow
    load_zero, _ = integer_access("i8" if signed else "u8")
    _, store_i32 = integer_access("i32")
    shift = -128 if signed else 0

    def kernel(args: int, tid: int, nthreads: int) -> None:
        a, y, terms, needed = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        rows, k, y_row = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        zeros, places = load_i64(args, 7), load_i64(args, 8)
        corrected = terms != 0 and load_i64(needed, 0) != 0
        if y == 0 and not corrected:
            return
        whole = k - k % lanes
        for row in range(rows * tid // nthreads, rows * (tid + 1) // nthreads):
            zero = 0
            if zeros != 0:
                zero = load_zero(zeros + (load_i32(places, row) if places != 0 else 0))
            source, destination = a + row * k, y + row * y_row
            taken = shift if narrow else zero
            offset, total = splat(taken), splat(0)
            for i in range(0, whole, lanes):
                part = sub(load(source + i), offset)
                total = add(total, part)
                if y != 0:
                    store(destination + i * size, part)
            result = across(total)
            if whole < k:
                part = sub(load_n(source + whole, k - whole), offset)
                result += across(part) + (lanes - (k - whole)) * taken
                if y != 0:
                    store(destination + whole * size, part)
            if corrected:
                store_i32(terms + row * 8, -zero if places != 0 else 0)
                store_i32(terms + row * 8 + 4, -result)

    return kernel
