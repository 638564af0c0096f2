"""Pad in every mode and both layouts: whole rows, their borders unit by unit."""

from __future__ import annotations

from typing import cast

import numpy as np

from softneuro.codegen.target import Target
from softneuro.ops.padding import Pad
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.remap import padding_kernels, remap
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.routines.strided import reject_unmovable

__all__ = ["PAD_ROWS_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op, x = cast(Pad, problem.op), problem.input(0)
    fill = np.asarray(op.value).astype(x.dtype.numpy).tobytes()
    return remap(x, signature.outputs[0].layout, op.indices(x.shape), fill)


PAD_ROWS_ANY = Routine(
    name="pad.rows.any.both", op=Pad, reject=reject_unmovable, signatures=same_layout_signatures, build=_build,
    kernels=padding_kernels)
