"""Adapt between channels-first and channels-last, both ways: transposed squares in registers, any element type."""

from __future__ import annotations

from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.problem import Problem
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import Copies, byte_strides, reject_unmovable, transposing_kernels, unmoved
from softneuro.types import Format, Layout

__all__ = ["ADAPT_BLOCKED_ANY"]


def _reject(problem: Problem, target: Target) -> str | None:
    if problem.input(0).rank < 3:
        return f"found rank {problem.input(0).rank}, needed 3 or more: smaller ones have one layout only"
    return reject_unmovable(problem, target)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    dtype = problem.input(0).dtype
    first, last = Format(dtype, Layout.CHF), Format(dtype, Layout.CHL)
    return Signature((first,), (last,)), Signature((last,), (first,))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x = problem.input(0)
    before, after = signature.inputs[0], signature.outputs[0]
    assert before is not None
    old, new = byte_strides(x, before.layout), byte_strides(x, after.layout)
    if unmoved(x.dtype.itemsize, x.shape, old, new):
        return Built(alias=0)
    copies = Copies()
    copies.add(x.dtype.itemsize, x.shape, source(0), old, target_of(0), new)
    return copies.built()


ADAPT_BLOCKED_ANY = also_narrow(Routine(
    name="adapt.blocked.any.both", op=Adapt, reject=_reject, signatures=_signatures, build=_build,
    kernels=transposing_kernels))
