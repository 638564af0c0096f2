"""Matrices of bytes that are computed at run time, packed in panels of columns for `gemm_integer`.

Words: 0 b (matrices, k, n), 1 panels, 2 sides (int32 [matrix][2][columns of the panels]), 3 number of matrices, 4 k, 5 n,
6 zero points (or 0 for none), 7 where those of each matrix begin (int64, bytes), 8 bytes from one column's to the next's
(1, or 0 when a matrix has a single one).
"""

from __future__ import annotations

from collections.abc import Callable

from softneuro.codegen.integer_forms import FORMS
from softneuro.codegen.integer_lanes import integer_lanes
from softneuro.codegen.memory import load_i64
from softneuro.codegen.scalars import integer_access
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, form: str, nv: int, signed: bool) -> Callable[[int, int, int], None]:
    """The kernel for panels of ``nv`` vectors of columns.

    Panels of 16-bit elements hold b minus its zero point. Panels of bytes hold b, minus 128 when it is unsigned. The sides
    are the column sums of b minus its zero point, and what of the zero points is still to be subtracted.
    """
    chosen = FORMS[form]
    v = integer_lanes(target, chosen, signed)
    load, load_n, splat, add, sub, mul = v.load, v.load_n, v.splat, v.add, v.sub, v.mul
    pack, store_group, store, lanes = v.pack, v.store_group, v.store_int32, v.lanes
    group, narrow, width, step_bytes = chosen.group, chosen.narrow, nv * v.lanes, chosen.step_bytes
    load_zero, _ = integer_access("i8" if signed else "u8")
    shift = 0 if signed else 128

    def kernel(args: int, tid: int, nthreads: int) -> None:
        b, packed, sides, matrices = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        k, n, zeros = load_i64(args, 4), load_i64(args, 5), load_i64(args, 6)
        places, zero_step = load_i64(args, 7), load_i64(args, 8)
        vectors = (n + width - 1) // width * nv
        steps = (k + group - 1) // group
        side_bytes = vectors * lanes * 4
        units = matrices * vectors
        for unit in range(units * tid // nthreads, units * (tid + 1) // nthreads):
            matrix = unit // vectors
            index = unit - matrix * vectors
            column = index * lanes
            columns = min(lanes, max(0, n - column))
            zero = splat(0)
            if zeros != 0:
                first = zeros + load_i64(places, matrix)
                zero = load_n(first + column, columns) if zero_step != 0 else splat(load_zero(first))
            offset = splat(shift) if narrow else zero
            source = b + matrix * k * n + column
            panel = unit // nv
            place = packed + (panel * steps * width + (unit - panel * nv) * lanes) * step_bytes
            total = splat(0)
            for step in range(steps):
                held = splat(0)
                for position in range(min(group, k - step * group)):
                    line = source + (step * group + position) * n
                    part = sub(load(line) if columns == lanes else load_n(line, columns), offset)
                    total = add(total, part)
                    held = pack(held, part, position)
                store_group(place + step * width * step_bytes, held)
            left = sub(zero, offset)
            side = sides + matrix * 2 * side_bytes + column * 4
            store(side, sub(total, mul(splat(k), left)))
            store(side + side_bytes, left)

    return kernel
