"""StridedSlice as one strided copy in both layouts; backward steps are negative strides."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.target import Target
from softneuro.ops.slicing import StridedSlice
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import Copies, byte_strides, in_order_kernels, reject_unmovable

__all__ = ["SLICE_STRIDED_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(StridedSlice, problem.op)
    x, y = problem.input(0), problem.outputs[0]
    layout = signature.outputs[0].layout
    if x.shape == y.shape and all(step == 1 for step, size in zip(op.steps, op.sizes, strict=True) if size > 1):
        return Built(alias=0)
    strides = byte_strides(x, layout)
    start = sum(s * stride for s, stride in zip(op.starts, strides, strict=True))
    steps = tuple(s * stride for s, stride in zip(op.steps, strides, strict=True))
    copies = Copies()
    copies.add(x.dtype.itemsize, y.shape, source(0, start), steps, target_of(0), byte_strides(y, layout))
    return copies.built()


SLICE_STRIDED_ANY = also_narrow(Routine(
    name="strided_slice.strided.any.both", op=StridedSlice, reject=reject_unmovable,
    signatures=same_layout_signatures, build=_build, kernels=in_order_kernels))
