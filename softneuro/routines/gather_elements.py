"""GatherElements run by run, any data type, row-major."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from softneuro.codegen.elements import AXIS_WORDS
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.gather_elements import GatherElements
from softneuro.problem import Problem
from softneuro.routines.formats import row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, table, target_of
from softneuro.routines.strided import byte_strides, reject_unmovable
from softneuro.types import DType, Layout

__all__ = ["GATHER_ELEMENTS_RUNS_ANY"]


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, indices = problem.input(0), problem.input(1)
    axis = normal_axis(cast(GatherElements, problem.op).axis, x.rank)
    strides = byte_strides(x, Layout.CHF)
    moving = [0 if a == axis else stride for a, stride in enumerate(strides)]
    counts = [math.prod(indices.shape[a + 1 :]) for a in range(x.rank)]
    outside = np.array([*zip(indices.shape, moving, counts, strict=True)][:-1], np.int64).reshape(-1, AXIS_WORDS)
    runs, run = math.prod(indices.shape[:-1]), indices.shape[-1]
    words = (source(0), source(1), target_of(0), table(0), len(outside), runs, run, moving[-1], x.shape[axis], strides[axis])
    kernel = KernelSpec.of("gather_elements", size=x.dtype.itemsize, wide=indices.dtype is DType.I64)
    return Built(launches=(Launch(kernel, words),), tables=(outside if len(outside) else np.zeros((1, AXIS_WORDS), np.int64),))


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    return reject_unmovable(problem, target) if x.size else f"found {x}, needed elements to pick from"


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


GATHER_ELEMENTS_RUNS_ANY = Routine(name="gather_elements.runs.any.chf", op=GatherElements, reject=_reject,
                                   signatures=_signatures, build=_build)
