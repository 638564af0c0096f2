"""View, at no cost: the output is the input's memory, whenever the layouts make both the same sequence."""

from __future__ import annotations

from softneuro.codegen.target import Target
from softneuro.ops.view import View
from softneuro.problem import Problem
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.types import DType, Format, Layout, TensorType, physical_shape

__all__ = ["VIEW_ALIAS_ANY"]


def _reject(problem: Problem, target: Target) -> str | None:
    dtype = problem.input(0).dtype
    return f"found {dtype}, needed elements of a fixed size" if dtype in (DType.STR, DType.OTHER) else None


def _formats(type_: TensorType) -> tuple[Format, ...]:
    row_major = Format.row_major(type_)
    return (row_major, Format(type_.dtype, Layout.CHL)) if type_.rank >= 3 else (row_major,)


def _memory_order(type_: TensorType, layout: Layout) -> tuple[tuple[int, int], ...]:
    """(size, step in row-major element numbers) of the axes in memory, axes that act as one made one."""
    numbers, step = [], 1
    for size in reversed(type_.shape):
        numbers.append(step)
        step *= size
    merged: list[tuple[int, int]] = []
    sizes = physical_shape(type_.shape, layout)
    for size, number in zip(sizes, physical_shape(tuple(reversed(numbers)), layout), strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * number:
            merged[-1] = (merged[-1][0] * size, number)
        else:
            merged.append((size, number))
    return tuple(merged)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    x, y = problem.input(0), problem.outputs[0]
    return tuple(
        Signature((before,), (after,))
        for before in _formats(x)
        for after in _formats(y)
        if _memory_order(x, before.layout) == _memory_order(y, after.layout)
    )


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return Built(alias=0)


VIEW_ALIAS_ANY = also_narrow(Routine(
    name="view.alias.any.both", op=View, reject=_reject, signatures=_signatures, build=_build))
