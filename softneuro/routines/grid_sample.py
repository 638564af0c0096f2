"""GridSample of pictures, float32, in either layout."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.grid_sample import GridSample
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHF, F32_CHL, reject_unless_f32
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, scratch, source, target_of
from softneuro.routines.sizes import odd_lines
from softneuro.types import DType

__all__ = ["GRID_SAMPLE_BLOCKS_F32"]

_BLOCK = 64
_TAPS = {"nearest": 1, "linear": 4, "cubic": 16}
_AXES_BYTES = 96


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, y = cast(GridSample, problem.op), problem.outputs[0]
    pictures, channels, height, width = problem.input(0).shape
    share = odd_lines(12 * _TAPS[op.mode] * _BLOCK + _AXES_BYTES)
    words = (source(0), source(1), target_of(0), pictures, channels, height, width, y.shape[2] * y.shape[3], scratch(),
             share, problem.threads, _BLOCK)
    kernel = KernelSpec.of("grid_sample", mode=op.mode, padding=op.padding, align=op.align_corners,
                           last=signature.inputs[0] == F32_CHL)
    return Built(launches=(Launch(kernel, words),), scratch=share * problem.threads)


def _reject(problem: Problem, target: Target) -> str | None:
    x, grid = problem.input(0), problem.input(1)
    if x.rank != 4 or grid.dtype is not DType.F32:
        return f"found {x} and grid {grid}, needed pictures of rank 4 and an f32 grid"
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return Signature((F32_CHF, F32_CHF), (F32_CHF,)), Signature((F32_CHL, F32_CHF), (F32_CHL,))


GRID_SAMPLE_BLOCKS_F32 = Routine(name="grid_sample.blocks.f32", op=GridSample, reject=_reject, signatures=_signatures,
                                 build=_build, tolerance=64.0)
