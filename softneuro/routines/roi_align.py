"""RoiAlign, float32, channels last."""

from __future__ import annotations

from typing import cast

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.roi_align import MOST_SAMPLES, RoiAlign
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHL, reject_unless_f32
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, Word, source, target_of
from softneuro.types import DType, Format

__all__ = ["ROI_ALIGN_BINS_F32_CHL"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x, pictures = cast(RoiAlign, problem.op), problem.input(0), problem.input(2)
    kernel = KernelSpec.of("roi_align", largest=op.mode == "max", half_pixel=op.half_pixel, wide=pictures.dtype is DType.I64)
    scale = int(np.float32(op.scale).view(np.int32))
    words: tuple[Word, ...] = (source(0), source(1), source(2), target_of(0), pictures.size, *x.shape, op.bins_down,
                                op.bins_across, op.sampling, scale, MOST_SAMPLES)
    return Built(launches=(Launch(kernel, words),))


def _reject(problem: Problem, target: Target) -> str | None:
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (Signature((F32_CHL, *(Format.row_major(problem.input(i)) for i in (1, 2))), (F32_CHL,)),)


ROI_ALIGN_BINS_F32_CHL = Routine(name="roi_align.bins.f32.chl", op=RoiAlign, reject=_reject, signatures=_signatures,
                                 build=_build, tolerance=64.0)
