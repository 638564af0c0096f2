"""Constants of recurrent layers in the order of the kernels: all gates of a vector of hidden units lie together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from softneuro.codegen.recurrence import CELL_GATES
from softneuro.codegen.target import Target
from softneuro.memory import aligned_empty
from softneuro.ops.recurrent import GATES, Recurrent
from softneuro.problem import Problem
from softneuro.routines.linear import panels_of
from softneuro.routines.routine import Schedule
from softneuro.types import Array

__all__ = ["BIASES", "FEEDING", "FEEDING_BIAS", "PEEPHOLES", "SECOND_BIASES", "SECOND_WEIGHTS", "WEIGHTS", "cell_kind",
           "pack_recurrent"]

FEEDING, FEEDING_BIAS, WEIGHTS, BIASES, SECOND_WEIGHTS, SECOND_BIASES, PEEPHOLES = range(7)
"""Positions in what `pack_recurrent` returns."""


def cell_kind(op: Recurrent) -> str:
    """The kind of cell of `CELL_GATES`."""
    return "gru_linear" if op.kind == "gru" and op.linear_before_reset else op.kind


def _blocks(values: Array, gates: int, lanes: int) -> Array:
    """(d, gates * hidden, depth) as (d, depth, block, gate, lane), zeros past the last unit."""
    directions, rows, depth = values.shape
    hidden = rows // gates
    total = math.ceil(hidden / lanes)
    padded = np.zeros((directions, gates, total * lanes, depth), values.dtype)
    padded[:, :, :hidden] = values.reshape(directions, gates, hidden, depth)
    return padded.reshape(directions, gates, total, lanes, depth).transpose(0, 4, 2, 1, 3)


def _panels(blocks: Array) -> Array:
    """(d, depth, block, gate, lane) as [d][block][depth][gate][lane] on a cache line."""
    ordered = blocks.transpose(0, 2, 1, 3, 4)
    result = aligned_empty(ordered.shape, ordered.dtype)
    result[...] = ordered
    return result


def _paired_panels(blocks: Array) -> Array:
    """(d, depth, block, gate, lane) as [d][block][depth / 2][gate][lane][2] on a cache line."""
    d, depth, *others = blocks.shape
    padded = np.zeros((d, math.ceil(depth / 2) * 2, *others), blocks.dtype)
    padded[:, :depth] = blocks
    ordered = padded.reshape(d, -1, 2, *others).transpose(0, 3, 1, 4, 5, 2)
    result = aligned_empty(ordered.shape, ordered.dtype)
    result[...] = ordered
    return result


def pack_recurrent(problem: Problem, schedule: Schedule, target: Target,
                   values: Sequence[Array | None]) -> tuple[Array, ...]:
    """The arrays of the positions above: the input weights in panels of the schedule's ``nv`` vectors, the recurrent
    weights of the gates before and after a reset, biases added up where they are, and the peepholes.

    Where recurrent weights are whole numbers, their scales stand in the place of their biases, which all are the input's.
    """
    op, lanes = cast(Recurrent, problem.op), target.f32_lanes
    padded = [*values, *[None] * (9 - len(values))]
    w, r, bias, peepholes, scales = padded[1], padded[2], padded[3], padded[7], padded[8]
    assert w is not None and r is not None
    gates, rows = GATES[op.kind], GATES[op.kind] * op.hidden
    both = np.zeros((op.directions, 2 * rows, 1), np.float32) if bias is None else bias[:, :, None]
    from_input, from_state = both[:, :rows].copy(), both[:, rows:].copy()
    apart = 2 * op.hidden if cell_kind(op) == "gru_linear" else rows
    from_input[:, :apart] += from_state[:, :apart]
    from_state[:, :apart] = 0.0

    width = schedule["nv"] * lanes
    feeding = _blocks(w, gates, lanes).transpose(1, 0, 2, 3, 4).reshape(1, w.shape[2], -1)
    first = CELL_GATES[cell_kind(op)][0]
    states, biases = _blocks(r, gates, lanes), _blocks(from_state if scales is None else scales[:, :, None], gates, lanes)
    peep = np.zeros((op.directions, 3 * op.hidden), np.float32) if peepholes is None else peepholes
    return (
        panels_of(feeding, width),
        panels_of(_blocks(from_input, gates, lanes).reshape(1, 1, -1), width),
        _panels(states[:, :, :, :first]) if scales is None else _paired_panels(states),
        _panels(biases[:, :, :, :first]),
        _panels(states[:, :, :, first:]),
        _panels(biases[:, :, :, first:]),
        _panels(_blocks(peep[:, :, None], 3, lanes)),
    )
