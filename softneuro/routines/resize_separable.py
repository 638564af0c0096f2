"""Resize in modes linear and cubic, float32, both layouts: one axis after the other, the most shrinking one first."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.resize import AxisTaps, Resize
from softneuro.problem import Problem
from softneuro.routines.formats import memory_order, reject_unless_f32, same_layout_signatures
from softneuro.routines.routine import (
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    Word,
    scratch,
    source,
    table,
    target_of,
)
from softneuro.types import Array, physical_shape

__all__ = ["RESIZE_SEPARABLE_F32", "reject_resampling", "separable_kernels", "tap_tables"]

_RESAMPLE, _RESAMPLE_LINE = KernelSpec.of("resample"), KernelSpec.of("resample_line")


def separable_kernels(problem: Problem, signature: Signature, schedule: Schedule,
                      target: Target) -> tuple[KernelSpec, ...]:
    """The kernels for axes with and without others inside."""
    return _RESAMPLE, _RESAMPLE_LINE


def reject_resampling(problem: Problem, target: Target) -> str | None:
    """The reject of routines that weight float32 elements."""
    op = cast(Resize, problem.op)
    if op.mode == "nearest":
        return "found mode nearest, needed linear or cubic"
    if any(op.taps(axis, size).outside.any() for axis, size in enumerate(problem.input(0).shape)):
        return "found a region that leaves the input, needed one inside"
    return reject_unless_f32(problem)


def tap_tables(taps: AxisTaps, step: int) -> tuple[Array, Array]:
    """Byte offsets (int64) and weights (float32) of an axis whose elements are ``step`` bytes apart."""
    return taps.positions.astype(np.int64) * step, taps.weights.astype(np.float32)


def _changed(op: Resize, shape: tuple[int, ...]) -> list[tuple[int, AxisTaps]]:
    """The axes that are resampled, the one that shrinks most (or grows least) first."""
    assert op.sizes is not None
    found = [(axis, op.taps(axis, size)) for axis, size in enumerate(shape)]
    kept = [(a, t) for a, t in found if not (t.identity and op.sizes[a] == shape[a])]
    return sorted(kept, key=lambda pair: len(pair[1].positions) / shape[pair[0]])


def _launch(taps: AxisTaps, before: int, size: int, after: int, addresses: tuple[Word, ...]) -> Launch:
    """One axis of ``size`` elements between axes of ``before`` and ``after`` elements in all.

    addresses: source, destination, offsets and weights (see `tap_tables`).
    """
    outputs, count = taps.positions.shape
    if after == 1:
        return Launch(_RESAMPLE_LINE, (*addresses, before, 4 * size, outputs, count))
    return Launch(_RESAMPLE, (*addresses, before, 4 * size * after, outputs, after, count))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x, y = cast(Resize, problem.op), problem.input(0), problem.outputs[0]
    if not y.size:
        return Built()
    layout = signature.outputs[0].layout
    order = memory_order(x.rank, layout)
    changed = _changed(op, x.shape)
    if not changed:
        return Built(alias=0)
    shape = list(physical_shape(x.shape, layout))
    launches: list[Launch] = []
    tables: list[Array] = []
    reserved = 0
    place: Word = source(0)
    for number, (axis, taps) in enumerate(changed):
        position = order.index(axis)
        before, size, after = math.prod(shape[:position]), shape[position], math.prod(shape[position + 1 :])
        shape[position] = len(taps.positions)
        following: Word = target_of(0)
        if number + 1 < len(changed):
            following = scratch(reserved)
            reserved += -(-4 * math.prod(shape) // 64) * 64
        addresses = (place, following, table(len(tables)), table(len(tables) + 1))
        launches.append(_launch(taps, before, size, after, addresses))
        tables += tap_tables(taps, 4 * after)
        place = following
    return Built(launches=tuple(launches), tables=tuple(tables), scratch=reserved)


RESIZE_SEPARABLE_F32 = Routine(
    name="resize.separable.f32.both", op=Resize, reject=reject_resampling, signatures=same_layout_signatures,
    build=_build, kernels=separable_kernels, tolerance=16.0)
