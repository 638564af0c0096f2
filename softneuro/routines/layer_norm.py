"""Layer normalisation over the last axes, float32, row by row."""

from __future__ import annotations

import math
from typing import cast

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.axes import normal_axis
from softneuro.ops.norm import LayerNorm
from softneuro.problem import Problem
from softneuro.routines.formats import reject_unless_f32, row_major_signature
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, source, target_of
from softneuro.types import Shape

__all__ = ["LAYER_NORM_ROWS_F32_CHF"]


def _lines(problem: Problem) -> Shape:
    """The normalised axes."""
    x = problem.input(0)
    return x.shape[normal_axis(cast(LayerNorm, problem.op).axis, x.rank) :]


def _reject(problem: Problem, target: Target) -> str | None:
    x = problem.input(0)
    line = _lines(problem)
    if x.size == 0:
        return f"found an input of shape {x.shape}, needed at least one element"
    for index, name in enumerate(("scale", "bias")[: len(problem.inputs) - 1], 1):
        shape = problem.input(index).shape
        if math.prod(shape) != math.prod(line) or (*(1,) * len(line), *shape)[-len(line) :] != line:
            return f"found {name} of shape {shape}, needed {line}"
    return reject_unless_f32(problem)


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    return (row_major_signature(problem),)


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    op = cast(LayerNorm, problem.op)
    length = math.prod(_lines(problem))
    words = (source(0), target_of(0), source(1), source(2) if op.bias else 0, problem.input(0).size // length, length, 0)
    kernel = KernelSpec.of("layer_norm", epsilon=float(op.epsilon), bias=op.bias)
    return Built(launches=(Launch(kernel, words),))


LAYER_NORM_ROWS_F32_CHF = Routine(
    name="layer_norm.rows.f32.chf",
    op=LayerNorm,
    reject=_reject,
    signatures=_signatures,
    build=_build,
    tolerance=8.0,
)
