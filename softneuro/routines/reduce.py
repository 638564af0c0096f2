"""Reductions over any axes in either layout, of floats and integers.

Neighbouring axes that are all reduced or all kept are one axis; of what is left, the last axis becomes the run that
vectors lie along, and the outermost kept and reduced axes become strides. Only further axes need tables of offsets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.reduce import Reduce
from softneuro.problem import Problem
from softneuro.routines.formats import memory_order
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of
from softneuro.types import Array, DType, Format, Layout

__all__ = ["REDUCE_ROWS_F32_CHF"]

_INTEGER_KINDS = ("sum", "max", "min", "prod", "l1", "sum_square")
_FLOAT_KINDS = (*_INTEGER_KINDS, "mean", "l2")
_KINDS: Mapping[DType, tuple[str, ...]] = {
    DType.F32: (*_FLOAT_KINDS, "log_sum"),
    DType.F64: _FLOAT_KINDS,
    DType.BOOL: ("max", "min"),
    **dict.fromkeys((DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64), _INTEGER_KINDS),
}


@dataclass(frozen=True)
class _Axis:
    """Neighbouring axes in one: their number of elements, and bytes from one to the next."""

    size: int
    stride: int
    reduced: bool


def _reject(problem: Problem, target: Target) -> str | None:
    op = cast(Reduce, problem.op)
    x = problem.input(0)
    if x.dtype not in _KINDS:
        return f"found {x.dtype} input, needed one of {', '.join(_KINDS)}"
    if op.kind not in _KINDS[x.dtype]:
        return f"found the reduction {op.kind} of {x.dtype}, needed one of {', '.join(_KINDS[x.dtype])}"
    if op.reduced(x.rank) is None or x.size == 0:
        return f"found nothing to reduce in shape {x.shape}, needed an axis and an element"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    """Row-major, and channels last where the kept axes then lie as one of the output's layouts has them."""
    op = cast(Reduce, problem.op)
    x, y = problem.input(0), problem.outputs[0]
    row_major = Signature((Format.row_major(x),), (Format.row_major(y),))
    if x.rank < 3:
        return (row_major,)
    axes = op.reduced(x.rank)
    assert axes is not None
    kept = [axis for axis in range(x.rank) if op.keepdims or axis not in axes]
    in_memory = [axis for axis in memory_order(x.rank, Layout.CHL) if axis in kept]
    layouts = [Format.row_major(y).layout] + [Layout.CHL] * (y.rank >= 3)
    found = [layout for layout in layouts if [kept[axis] for axis in memory_order(y.rank, layout)] == in_memory]
    last = [Signature((Format(x.dtype, Layout.CHL),), (Format(x.dtype, layout),)) for layout in found[:1]]
    return (row_major, *last)


def _merged(sizes: Sequence[int], reduced: Sequence[bool], stride: int) -> list[_Axis]:
    """Axes of size 1 dropped, and neighbours that are both reduced or both kept made one. stride: of the last axis."""
    axes: list[_Axis] = []
    for size, flag in zip(reversed(sizes), reversed(reduced), strict=True):
        if size > 1:
            if axes and axes[-1].reduced is flag:
                axes[-1] = _Axis(axes[-1].size * size, axes[-1].stride, flag)
            else:
                axes.append(_Axis(size, stride, flag))
        stride *= size
    return axes[::-1]


def _places(axes: Sequence[_Axis]) -> tuple[int, int, Array]:
    """All positions over the axes, as how often which stride, and byte offsets over the inner axes (int64)."""
    if not axes:
        return 1, 0, np.zeros(1, np.int64)
    outer, *inner = axes
    offsets = np.zeros(1, np.int64)
    for axis in inner:
        offsets = (offsets[:, None] + np.arange(axis.size, dtype=np.int64) * axis.stride).reshape(-1)
    return outer.size, outer.stride, offsets


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(Reduce, problem.op)
    x = problem.input(0)
    reduced = op.reduced(x.rank)
    assert reduced is not None and signature.inputs[0] is not None
    order = memory_order(x.rank, signature.inputs[0].layout)
    axes = _merged([x.shape[axis] for axis in order], [axis in reduced for axis in order], x.dtype.itemsize)
    run = axes.pop() if axes else _Axis(1, x.dtype.itemsize, True)
    lines, outer_stride, outer = _places([axis for axis in axes if not axis.reduced])
    times, stride, inner = _places([axis for axis in axes if axis.reduced])
    count = math.prod(x.shape[axis] for axis in reduced)
    words = (source(0), target_of(0), lines * len(outer), run.size, count, table(0), len(outer), outer_stride,
             table(1), len(inner), times, stride, int(run.reduced))
    kernel = KernelSpec.of("reduce", kind=op.kind, dtype="u8" if x.dtype is DType.BOOL else x.dtype.value)
    return Built(launches=(Launch(kernel, words),), tables=(outer, inner))


REDUCE_ROWS_F32_CHF = Routine(
    name="reduce.rows.f32.chf",
    op=Reduce,
    reject=_reject,
    signatures=_signatures,
    build=_build,
    tolerance=32.0,
)
