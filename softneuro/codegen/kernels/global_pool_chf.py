"""Average or maximum over all pixels with channels first: every plane is one contiguous run.

Words: 0 x, 1 y, 2 planes (images x channels), 3 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from softneuro.codegen.elementary import exact_maximum_value
from softneuro.codegen.memory import load_i64, store_f32
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, VectorType, build_intrinsic, call_intrinsic, first_lanes, vectors

__all__ = ["make"]

_UNROLL = 4


def make(target: Target, kind: str) -> Callable[[int, int, int], None]:
    """The kernel of ``max`` or ``average``: four partial results a plane, so that they do not wait for each other."""
    v = vectors(target)
    lanes, load, load_n, splat = v.lanes, v.load, v.load_n, v.splat
    vector = VectorType(F32, lanes)
    exact_maximum = build_intrinsic(vector, [vector, vector], lambda b, a: exact_maximum_value(b, *a))
    is_average = kind == "average"
    combine = v.add if is_average else exact_maximum
    reduce = v.sum if is_average else _exact_largest(lanes)
    neutral = 0.0 if is_average else -math.inf
    keep = _first_or_lowest(lanes)
    step = _UNROLL * lanes

    def kernel(args: int, tid: int, nthreads: int) -> None:
        x, y, planes, pixels = load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3)
        whole, rest = pixels // step * step, pixels % lanes
        for plane in range(planes * tid // nthreads, planes * (tid + 1) // nthreads):
            source = x + plane * pixels * 4
            a, b, c, d = splat(neutral), splat(neutral), splat(neutral), splat(neutral)
            for i in range(0, whole, step):
                a = combine(a, load(source + i * 4))
                b = combine(b, load(source + (i + lanes) * 4))
                c = combine(c, load(source + (i + 2 * lanes) * 4))
                d = combine(d, load(source + (i + 3 * lanes) * 4))
            for i in range(whole, pixels - rest, lanes):
                b = combine(b, load(source + i * 4))
            if rest > 0:
                tail = load_n(source + (pixels - rest) * 4, rest)
                c = combine(c, tail if is_average else keep(tail, rest))
            total = reduce(combine(combine(a, b), combine(c, d)))
            store_f32(y, plane, types.float32(total / pixels) if is_average else total)

    return kernel


def _first_or_lowest(lanes: int) -> Any:
    """An intrinsic ``keep(vector, n)``: lanes from n on become -inf."""
    vector = VectorType(F32, lanes)
    lowest = ir.Constant(vector.llvm, [-math.inf] * lanes)
    return build_intrinsic(vector, [vector, types.int64],
                           lambda b, a: b.select(first_lanes(b, a[1], lanes), a[0], lowest))


def _exact_largest(lanes: int) -> Any:
    """An intrinsic: the largest lane; NaN when there is one."""
    vector = VectorType(F32, lanes)

    def generate(builder: Any, a: list[Any]) -> Any:
        largest = call_intrinsic(builder, f"llvm.vector.reduce.fmax.v{lanes}f32", F32, a)
        unordered = builder.fcmp_unordered("uno", a[0], a[0])
        some = call_intrinsic(builder, f"llvm.vector.reduce.or.v{lanes}i1", ir.IntType(1), [unordered])
        return builder.select(some, F32(math.nan), largest)

    return build_intrinsic(types.float32, [vector], generate)
