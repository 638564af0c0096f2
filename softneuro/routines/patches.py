"""Patches as one strided copy, whose source overlaps itself."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.target import Target
from softneuro.ops.patches import Patches
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import Copies, byte_strides, moving_kernels, reject_unmovable, unmoved
from softneuro.types import Layout, TensorType

__all__ = ["PATCHES_STRIDED_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x, y = cast(Patches, problem.op), problem.input(0), problem.outputs[0]
    batch, *steps, channel = byte_strides(x, Layout.CHF)
    shape = (x.shape[0], *y.shape[1:-1], *op.kernel, x.shape[-1])
    moved = tuple(step * stride for step, stride in zip(steps, op.strides, strict=True))
    spread = tuple(step * dilation for step, dilation in zip(steps, op.dilations, strict=True))
    before = (batch, *moved, *spread, channel)
    after = byte_strides(TensorType(x.dtype, shape), Layout.CHF)
    if x.size == y.size and unmoved(x.dtype.itemsize, shape, before, after):
        return Built(alias=0)
    copies = Copies()
    copies.add(x.dtype.itemsize, shape, source(0), before, target_of(0), after)
    return copies.built()


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


PATCHES_STRIDED_ANY = Routine(name="patches.strided.any.chf", op=Patches, reject=reject_unmovable, signatures=_signatures,
                              build=_build, kernels=moving_kernels)
