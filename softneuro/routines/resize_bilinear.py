"""Resize in mode linear of the two spatial axes of images, float32, channels last, in one pass."""

from __future__ import annotations

from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.resize import AxisTaps, Resize
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL
from softneuro.routines.resize_separable import reject_resampling, tap_tables
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of

__all__ = ["RESIZE_BILINEAR_F32_CHL"]

_BILINEAR = KernelSpec.of("bilinear")


def _reject(problem: Problem, target: Target) -> str | None:
    op, x, y = cast(Resize, problem.op), problem.input(0), problem.outputs[0]
    reason = reject_resampling(problem, target)
    if reason:
        return reason
    if x.rank != 4 or x.shape[:2] != y.shape[:2]:
        return f"found {x} to {y}, needed images that change their height and width only"
    if op.mode != "linear" or op.antialias:
        return f"found mode {op.mode}{' with antialias' if op.antialias else ''}, needed linear without"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (Signature((F32_CHL,), (F32_CHL,)),)


def _in_pairs(taps: AxisTaps) -> AxisTaps:
    """Two taps for every output: where there is one (the axis keeps its size), the same again with weight 0."""
    if taps.positions.shape[1] == 2:
        return taps
    positions, weights = np.repeat(taps.positions, 2, axis=1), taps.weights * np.array([1.0, 0.0])
    return AxisTaps(positions, weights, taps.outside)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x, y = cast(Resize, problem.op), problem.input(0), problem.outputs[0]
    images, channels, height, width = x.shape
    vertical, horizontal = op.taps(2, height), op.taps(3, width)
    if x.shape == y.shape and vertical.identity and horizontal.identity:
        return Built(alias=0)
    rows = tap_tables(_in_pairs(vertical), 4 * width * channels)
    columns = tap_tables(_in_pairs(horizontal), 4 * channels)
    words = (source(0), target_of(0), table(0), table(1), table(2), table(3), images, 4 * height * width * channels,
             y.shape[2], y.shape[3], channels)
    return Built(launches=(Launch(_BILINEAR, words),), tables=(*rows, *columns))


RESIZE_BILINEAR_F32_CHL = Routine(
    name="resize.bilinear.f32.chl", op=Resize, reject=_reject, signatures=_signatures, build=_build,
    kernels=lambda problem, signature, schedule, target: (_BILINEAR,), tolerance=16.0)
