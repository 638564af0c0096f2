"""ScatterElements and ScatterND, row-major: any data type without a reduction, numbers with one."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from softneuro.codegen.elements import AXIS_WORDS
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.scatter import ScatterElements, ScatterND
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of
from softneuro.routines.strided import byte_strides, reject_unmovable
from softneuro.types import DType, Layout

__all__ = ["SCATTER_ELEMENTS_LINES_ANY", "SCATTER_ND_SLICES_ANY"]

_NUMBERS = (DType.F32, DType.F64, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64)
_BITS = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}


def _reject(problem: Problem, target: Target) -> str | None:
    reduction, dtype = cast(ScatterElements | ScatterND, problem.op).reduction, problem.input(0).dtype
    if reduction != "none" and dtype not in _NUMBERS:
        return f"found {dtype} with reduction {reduction}, needed one of {', '.join(_NUMBERS)}"
    return reject_unmovable(problem, target)


def _kernel(problem: Problem, name: str) -> KernelSpec:
    """A scatter kernel; without a reduction one that knows no more of the elements than their size."""
    reduction, dtype = cast(ScatterElements | ScatterND, problem.op).reduction, problem.input(0).dtype
    held = _BITS[dtype.itemsize] if reduction == "none" else dtype
    return KernelSpec.of(name, dtype=held.value, reduction=reduction, wide=problem.input(1).dtype is DType.I64)


def _build_elements(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, indices = problem.input(0), problem.input(1)
    axis, last = normal_axis(cast(ScatterElements, problem.op).axis, x.rank), x.rank - 1
    strides, counts = byte_strides(x, Layout.CHF), [math.prod(indices.shape[a + 1 :]) for a in range(x.rank)]
    others = [a for a in range(x.rank) if a not in (axis, last)]
    loops = np.array([(indices.shape[a], counts[a], strides[a]) for a in others] or [(1, 0, 0)], np.int64)
    columns, across, width = (1, 0, 0) if axis == last else (indices.shape[last], 1, x.dtype.itemsize)
    words = (target_of(0), source(1), source(2), table(0), len(others), math.prod(indices.shape[a] for a in others),
             columns, indices.shape[axis], counts[axis], across, width, x.shape[axis], strides[axis])
    copy = Launch(KernelSpec.of("copy_all"), (source(0), target_of(0), x.nbytes))
    return Built(launches=(copy, Launch(_kernel(problem, "scatter_elements"), words)),
                 tables=(loops.reshape(-1, AXIS_WORDS),))


def _build_nd(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, indices = problem.input(0), problem.input(1)
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    axes = [(size, math.prod(sizes[i + 1 :])) for i, size in enumerate(sizes)]
    words = (source(0), source(1), source(2), target_of(0), table(0), depth, math.prod(indices.shape[:-1]),
             math.prod(sizes), x.dtype.itemsize * math.prod(x.shape[depth:]))
    return Built(launches=(Launch(_kernel(problem, "scatter_nd"), words),), tables=(np.array(axes, np.int64),))


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


SCATTER_ELEMENTS_LINES_ANY = Routine(name="scatter_elements.lines.any.chf", op=ScatterElements, reject=_reject,
                                     signatures=_signatures, build=_build_elements)
SCATTER_ND_SLICES_ANY = Routine(name="scatter_nd.slices.any.chf", op=ScatterND, reject=_reject,
                                signatures=_signatures, build=_build_nd)
