"""Pointwise programs of one tensor kept as bytes: a table of what each of the 256 bytes becomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pointwise import Pointwise
from softneuro.problem import Problem
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, target_of
from softneuro.types import Array, DType, Format

__all__ = ["POINTWISE_LOOKUP_QINT8_ANY"]


def _reject(problem: Problem, target: Target) -> str | None:
    if len(problem.inputs) != 1:
        return f"found {len(problem.inputs)} inputs, needed 1"
    if problem.input(0).dtype is not DType.F32 or problem.outputs[0].dtype is not DType.F32:
        return f"found {problem.input(0)} and {problem.outputs[0]}, needed f32, which may be kept as bytes"
    if problem.input_quantisation(0) is None or problem.output_quantisation() is None:
        return "found no quantisations, needed those of input and output"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    formats = [Format(DType.QINT8, layout) for layout in Format.layouts_of(problem.input(0))]
    return tuple(Signature((format_,), (format_,)) for format_ in formats)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    """What the op's reference makes of the 256 numbers, to the nearest byte."""
    before, after = problem.input_quantisation(0), problem.output_quantisation()
    assert before is not None and after is not None
    numbers = before.dequantised(np.arange(256, dtype=np.uint8))
    with np.errstate(all="ignore"):
        (results,) = problem.op.reference([numbers])
    return (after.quantised(results),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return Built((Launch(KernelSpec.of("lookup_bytes"), (problem.outputs[0].size, source(0), target_of(0), packed(0))),))


POINTWISE_LOOKUP_QINT8_ANY = Routine(
    name="pointwise.lookup.qint8.any", op=Pointwise, reject=_reject, signatures=_signatures, build=_build, pack=_pack)
