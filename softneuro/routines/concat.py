"""Concat and Split as one strided copy for each part, on any axis and in both layouts."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.slicing import Concat, Split
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import Copies, byte_strides, in_order_kernels, reject_unmovable

__all__ = ["CONCAT_STRIDED_ANY", "SPLIT_STRIDED_ANY"]


def _build_concat(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    y = problem.outputs[0]
    layout = signature.outputs[0].layout
    strides = byte_strides(y, layout)
    axis = normal_axis(cast(Concat, problem.op).axis, y.rank)
    copies, place = Copies(), 0
    for index in range(len(problem.inputs)):
        part = problem.input(index)
        copies.add(part.dtype.itemsize, part.shape, source(index), byte_strides(part, layout), target_of(0, place),
                   strides)
        place += part.shape[axis] * strides[axis]
    return copies.built()


def _build_split(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x = problem.input(0)
    layout = signature.outputs[0].layout
    strides = byte_strides(x, layout)
    axis = normal_axis(cast(Split, problem.op).axis, x.rank)
    copies, place = Copies(), 0
    for index, part in enumerate(problem.outputs):
        copies.add(part.dtype.itemsize, part.shape, source(0, place), strides, target_of(index),
                   byte_strides(part, layout))
        place += part.shape[axis] * strides[axis]
    return copies.built()


CONCAT_STRIDED_ANY = also_narrow(Routine(
    name="concat.strided.any.both", op=Concat, reject=reject_unmovable, signatures=same_layout_signatures,
    build=_build_concat, kernels=in_order_kernels))
SPLIT_STRIDED_ANY = also_narrow(Routine(
    name="split.strided.any.both", op=Split, reject=reject_unmovable, signatures=same_layout_signatures,
    build=_build_split, kernels=in_order_kernels))
