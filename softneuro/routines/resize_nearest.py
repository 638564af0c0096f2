"""Resize in mode nearest, any element type, both layouts: moves elements only."""

from __future__ import annotations

from typing import cast

import numpy as np

from softneuro.codegen.target import Target
from softneuro.ops.resize import Resize
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.narrow import also_narrow
from softneuro.routines.remap import enlarging_kernels, remap
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.routines.strided import reject_unmovable

__all__ = ["RESIZE_NEAREST_ANY"]


def _reject(problem: Problem, target: Target) -> str | None:
    mode = cast(Resize, problem.op).mode
    return f"found mode {mode}, needed nearest" if mode != "nearest" else reject_unmovable(problem, target)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(Resize, problem.op), problem.input(0)
    taps = [op.taps(axis, size) for axis, size in enumerate(x.shape)]
    fill = np.asarray(op.extrapolation).astype(x.dtype.numpy).tobytes()
    indices = [np.where(t.outside, -1, t.positions[:, 0]) for t in taps]
    return remap(x, signature.outputs[0].layout, indices, fill, enlarges=True)


RESIZE_NEAREST_ANY = also_narrow(Routine(
    name="resize.nearest.any.both", op=Resize, reject=_reject, signatures=same_layout_signatures, build=_build,
    kernels=enlarging_kernels))
