"""Copies between strided tensors of any rank, planned from shape and strides: the ground of all ops that only move.

Axes are dropped, ordered and merged until the copy is one of four: rows of bytes, squares to transpose, a few rows
to interleave, or single elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from softneuro.codegen.elements import AXIS_WORDS, ELEMENT_SIZES, FEW
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.routines.routine import Built, Launch, Schedule, Signature, Word, table
from softneuro.types import Array, DType, Layout, Shape, TensorType, physical_shape

__all__ = ["Copies", "byte_strides", "in_order_kernels", "moving_kernels", "reject_unmovable", "transposing_kernels",
           "unmoved"]

_FEW_ROWS = 16
_UNIT_COLUMNS = 256
Strides = tuple[int, ...]


def byte_strides(type_: TensorType, layout: Layout) -> Strides:
    """Bytes from element to element along each axis (ONNX order) of a dense tensor in a layout."""
    strides = []
    step = type_.dtype.itemsize
    for size in reversed(physical_shape(type_.shape, layout)):
        strides.append(step)
        step *= size
    strides.reverse()
    return (strides[0], strides[-1], *strides[1:-1]) if layout is Layout.CHL else tuple(strides)


def reject_unmovable(problem: Problem, target: Target) -> str | None:
    """The reject of routines that only move elements."""
    for type_ in (*problem.inputs, *problem.outputs):
        if type_ is not None and (type_.dtype in (DType.STR, DType.OTHER) or type_.dtype.itemsize not in ELEMENT_SIZES):
            return f"found {type_.dtype}, needed elements of 1, 2, 4 or 8 bytes"
    return None


def transposing_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                        target: Target) -> tuple[KernelSpec, ...]:
    """The kernels of dense copies that exchange two axes (or groups of them), whatever their sizes."""
    size = problem.input(0).dtype.itemsize
    return KernelSpec.of("transpose", size=size), KernelSpec.of("interleave", size=size)


def in_order_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                     target: Target) -> tuple[KernelSpec, ...]:
    """The kernels of copies whose axes lie in the same order on both sides."""
    return KernelSpec.of("copy_rows"), KernelSpec.of("copy_elements", size=problem.input(0).dtype.itemsize)


def moving_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                   target: Target) -> tuple[KernelSpec, ...]:
    """The kernels of any copy."""
    return (*in_order_kernels(problem, signature, schedule, target),
            *transposing_kernels(problem, signature, schedule, target))


@dataclass(frozen=True)
class _Axis:
    size: int
    source: int
    destination: int


def _merged(shape: Shape, source: Strides, destination: Strides) -> list[_Axis]:
    """The axes of a copy, outermost in the destination first, neighbours that act as one axis made one."""
    axes = [_Axis(n, s, d) for n, s, d in zip(shape, source, destination, strict=True) if n != 1]
    axes.sort(key=lambda axis: (-abs(axis.destination), -abs(axis.source)))
    merged: list[_Axis] = []
    for axis in axes:
        outer = merged[-1] if merged else None
        if outer and outer.source == axis.size * axis.source and outer.destination == axis.size * axis.destination:
            merged[-1] = _Axis(outer.size * axis.size, axis.source, axis.destination)
        else:
            merged.append(axis)
    return merged


def unmoved(itemsize: int, shape: Shape, source: Strides, destination: Strides) -> bool:
    """Whether a copy between dense tensors would leave every byte at its offset."""
    axes = _merged(shape, source, destination)
    return 0 in shape or not axes or axes == [_Axis(math.prod(shape), itemsize, itemsize)]


class Copies:
    """Collects strided copies and gives the launches and tables that do them."""

    def __init__(self) -> None:
        self._launches: list[Launch] = []
        self._tables: list[Array] = []

    def built(self) -> Built:
        """All copies so far."""
        return Built(launches=tuple(self._launches), tables=tuple(self._tables))

    def add(self, itemsize: int, shape: Shape, source: Word, source_strides: Strides, destination: Word,
            destination_strides: Strides) -> None:
        """Copy ``shape`` elements of ``itemsize`` bytes; strides in bytes, in the same order of axes."""
        if 0 in shape:
            return
        axes = _merged(shape, source_strides, destination_strides)
        inner = axes[-1] if axes else _Axis(1, itemsize, itemsize)
        if inner.destination == itemsize and inner.source == itemsize:
            self._rows(axes[:-1], source, destination, inner.size * itemsize)
            return
        along = next((a for a in axes if a.source == itemsize), None)
        if inner.destination == itemsize and inner.source and along:
            rest = [a for a in axes[:-1] if a is not along]
            if self._interleaved(itemsize, rest, along, inner, source, destination):
                return
            if min(along.size, inner.size) >= 4 or max(along.size, inner.size) < 4:
                self._transposed(itemsize, rest, along, inner, source, destination)
                return
        apart = inner.source // itemsize if inner.destination == itemsize else 0
        self._launch(KernelSpec.of("copy_elements", size=itemsize), axes[:-1], source, destination, inner.size,
                     inner.source, inner.destination, apart if apart in FEW else 0)

    def _rows(self, axes: list[_Axis], source: Word, destination: Word, length: int) -> None:
        rows = axes[-1] if axes else _Axis(1, 0, 0)
        if rows.size < _FEW_ROWS:
            rows = max(axes, key=lambda axis: axis.size, default=rows)
        self._launch(KernelSpec.of("copy_rows"), [a for a in axes if a is not rows], source, destination, rows.size,
                     rows.source, rows.destination, length)

    def _interleaved(self, itemsize: int, rest: list[_Axis], along: _Axis, across: _Axis, source: Word,
                     destination: Word) -> bool:
        """Launch the interleaving kernel when one of the two axes is short and dense inside the other."""
        joins = across.size in FEW and along.destination == across.size * itemsize
        parts = along.size in FEW and across.source == along.size * itemsize
        if not (joins or parts) or max(along.size, across.size) < 4:
            return False
        few, many, step = (across, along, across.source) if joins else (along, across, along.destination)
        kernel = KernelSpec.of("interleave", size=itemsize)
        self._launch(kernel, rest, source, destination, many.size, step, few.size, int(joins))
        return True

    def _transposed(self, itemsize: int, rest: list[_Axis], along: _Axis, across: _Axis, source: Word,
                    destination: Word) -> None:
        self._launch(KernelSpec.of("transpose", size=itemsize), rest, source, destination, along.size, across.size,
                     across.source, along.destination, min(across.size, _UNIT_COLUMNS))

    def _launch(self, kernel: KernelSpec, loops: list[_Axis], source: Word, destination: Word, *words: int) -> None:
        rows = np.array([(a.size, a.source, a.destination) for a in loops], np.int64).reshape(-1, AXIS_WORDS)
        index = len(self._tables)
        self._tables.append(rows if len(rows) else np.zeros((1, AXIS_WORDS), np.int64))
        count = math.prod(a.size for a in loops)
        self._launches.append(Launch(kernel, (source, destination, table(index), len(loops), count, *words)))
