"""Transpose, DepthToSpace and SpaceToDepth as one strided copy, or as no copy when memory stays as it is."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.target import Target
from softneuro.ops.movement import DepthToSpace, SpaceToDepth, Transpose
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature, same_layout_signatures
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import (
    Copies,
    Strides,
    byte_strides,
    moving_kernels,
    reject_unmovable,
    unmoved,
)
from softneuro.types import Format, Layout, Shape

__all__ = ["DEPTH_TO_SPACE_STRIDED_ANY", "SPACE_TO_DEPTH_STRIDED_ANY", "TRANSPOSE_BLOCKED_ANY"]


def _strides(problem: Problem, signature: Signature) -> tuple[Strides, Strides]:
    """Byte strides of input and output along the output's axes."""
    x_format = signature.inputs[0]
    assert x_format is not None
    perm = cast(Transpose, problem.op).perm
    before = byte_strides(problem.input(0), x_format.layout)
    return tuple(before[p] for p in perm), byte_strides(problem.outputs[0], signature.outputs[0].layout)


def _transpose_signatures(problem: Problem) -> tuple[Signature, ...]:
    """Row-major, and the layouts between which nothing moves (as (0, 2, 3, 1) from channels last)."""
    x, y = problem.input(0), problem.outputs[0]
    found = [row_major_signature(problem)]
    if x.rank >= 3:
        layouts = (Layout.CHF, Layout.CHL)
        pairs = (Signature((Format(x.dtype, a),), (Format(y.dtype, b),)) for a in layouts for b in layouts)
        found += [s for s in pairs if s != found[0] and unmoved(x.dtype.itemsize, y.shape, *_strides(problem, s))]
    return tuple(found)


def _build_transpose(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    y = problem.outputs[0]
    before, after = _strides(problem, signature)
    if unmoved(y.dtype.itemsize, y.shape, before, after):
        return Built(alias=0)
    copies = Copies()
    copies.add(y.dtype.itemsize, y.shape, source(0), before, target_of(0), after)
    return copies.built()


def _channels_split(strides: Strides, shape: Shape, block: int, mode: str) -> tuple[int, int, int]:
    """Byte strides of (block row, block column, c) inside the channel axis of a tensor of the deeper shape."""
    channels = shape[1] // block**2
    step = strides[1]
    if mode == "DCR":
        return block * channels * step, channels * step, step
    return block * step, step, block**2 * step


def _build_blocks(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(DepthToSpace | SpaceToDepth, problem.op)
    to_space = isinstance(op, DepthToSpace)
    x_format = signature.inputs[0]
    assert x_format is not None
    x_strides = byte_strides(problem.input(0), x_format.layout)
    y_strides = byte_strides(problem.outputs[0], signature.outputs[0].layout)
    deep, deep_strides, wide = (
        (problem.input(0), x_strides, y_strides) if to_space else (problem.outputs[0], y_strides, x_strides))
    mode = op.mode if isinstance(op, DepthToSpace) else "DCR"
    n, channels, h, w = deep.shape
    b = op.block
    shape = (n, b, b, channels // b**2, h, w)
    deep_side = (deep_strides[0], *_channels_split(deep_strides, deep.shape, b, mode), *deep_strides[2:])
    wide_side = (wide[0], wide[2], wide[3], wide[1], b * wide[2], b * wide[3])
    before, after = (deep_side, wide_side) if to_space else (wide_side, deep_side)
    copies = Copies()
    copies.add(problem.input(0).dtype.itemsize, shape, source(0), before, target_of(0), after)
    return copies.built()


TRANSPOSE_BLOCKED_ANY = also_narrow(Routine(
    name="transpose.blocked.any.both", op=Transpose, reject=reject_unmovable, signatures=_transpose_signatures,
    build=_build_transpose, kernels=moving_kernels))
DEPTH_TO_SPACE_STRIDED_ANY = also_narrow(Routine(
    name="depth_to_space.strided.any.both", op=DepthToSpace, reject=reject_unmovable,
    signatures=same_layout_signatures, build=_build_blocks, kernels=moving_kernels))
SPACE_TO_DEPTH_STRIDED_ANY = also_narrow(Routine(
    name="space_to_depth.strided.any.both", op=SpaceToDepth, reject=reject_unmovable,
    signatures=same_layout_signatures, build=_build_blocks, kernels=moving_kernels))
