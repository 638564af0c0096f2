"""Recurrent layers: one matrix product for the input at all times, then step after step the product with the state.

A launch runs whole sequences, its threads share directions and elements of the batch; or, for large layers on several
threads, every step is a launch whose threads share the hidden units too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from softneuro.codegen.recurrence import CELL_GATES
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.integer import QuantisedStateLstm
from softneuro.ops.recurrent import GATES, Recurrent
from softneuro.problem import Problem
from softneuro.routines.formats import reject_unless_f32, row_major_signature
from softneuro.routines.linear import register_tiles
from softneuro.routines.matmul_shapes import row_offsets
from softneuro.routines.recurrent_launches import (
    CELL,
    HIDDEN,
    LENGTHS,
    PEEP,
    SCALES,
    Sizes,
    feeding_kernel,
    given,
    rounds_states,
    scratch_of,
    sizes_of,
    walk_kernel,
    walk_launches,
    walks_of,
)
from softneuro.routines.recurrent_weights import FEEDING, FEEDING_BIAS, cell_kind, pack_recurrent
from softneuro.routines.routine import Built, Launch, Routine, Schedule, Signature, packed, source, table
from softneuro.routines.sizes import balanced
from softneuro.types import DType, Shape

__all__ = ["QUANTISED_STATE_LSTM_STEPS_F32_CHF", "RECURRENT_STEPS_F32_CHF"]

_NAMES = ("sequence", "weights", "recurrent weights", "bias", "lengths", "hidden state", "cell state", "peepholes",
          "scales")
_PACKS = (1, 2, 3, PEEP, SCALES)
_MOST_FEATURES = 1 << 23
"""Tables hold offsets of the rows of a tile as int32."""
_MOST_HIDDEN = 1 << 15
"""Products of rounded states and weights, up to 255 each, are summed in 32 bits."""
_FEEDING_WIDTHS = (4, 2)
_CELLS = (8, 4)
"""How many sums of one element a tile should have, at most: enough for a tile of one element to fill the pipeline."""
_LEAST_ROWS = 2
"""A tile of several elements is for the sake of weights that are loaded once for all of them."""


def _op(problem: Problem) -> Recurrent:
    return cast(Recurrent, problem.op)


def _needed_shapes(problem: Problem) -> dict[int, Shape]:
    """The shapes that the optional inputs must have."""
    op = _op(problem)
    n = problem.input(0).shape[0 if op.batch_first else 1]
    state = (n, op.directions, op.hidden) if op.batch_first else (op.directions, n, op.hidden)
    return {
        3: (op.directions, 2 * GATES[op.kind] * op.hidden),
        LENGTHS: (n,),
        HIDDEN: state,
        CELL: state,
        PEEP: (op.directions, 3 * op.hidden),
        SCALES: (op.directions, GATES[op.kind] * op.hidden),
    }


def _reject(problem: Problem, target: Target) -> str | None:
    reason = reject_unless_f32(problem)
    if reason is not None:
        return reason
    for index in _PACKS:
        if given(problem, index) and not problem.constant[index]:
            return f"found {_NAMES[index]} computed at run time, needed constants"
    for index, shape in _needed_shapes(problem).items():
        dtypes = (DType.I32, DType.I64) if index == LENGTHS else (DType.F32,)
        if given(problem, index) and (problem.input(index).shape != shape or problem.input(index).dtype not in dtypes):
            needed = " or ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype in dtypes)
            return f"found {_NAMES[index]} of {problem.input(index)}, needed {needed}"
    if rounds_states(_op(problem)):
        if problem.input(2).dtype not in (DType.I8, DType.I16) or not given(problem, SCALES):
            return f"found recurrent weights of {problem.input(2)}, needed i8 or i16 with scales"
        if _op(problem).hidden > _MOST_HIDDEN:
            return f"found {_op(problem).hidden} hidden units, needed at most {_MOST_HIDDEN}"
    features, outputs = problem.input(0).shape[2], len(_op(problem).infer(problem.inputs))
    if not 1 <= features <= _MOST_FEATURES:
        return f"found a sequence of {features} features, needed 1 to {_MOST_FEATURES}"
    if len(problem.outputs) != outputs:
        return f"found {len(problem.outputs)} outputs, needed all {outputs}"
    return None


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    """All row-major; constants are taken by the packing."""
    plain = row_major_signature(problem)
    return (Signature(tuple(None if i in _PACKS else f for i, f in enumerate(plain.inputs)), plain.outputs),)


def _tile(sizes: Sizes, blocks: int, gates: int, target: Target) -> tuple[int, int] | None:
    """(rows, blocks) of the tile that has most rows, or None when the registers hold too few."""
    most = (target.registers - 1) // (blocks * gates) - 1
    if sizes.n <= 1 or most < _LEAST_ROWS:
        return (1, blocks) if blocks == 1 or sizes.n <= 1 else None
    return balanced(sizes.n, most), blocks


def _schedules(problem: Problem, target: Target) -> tuple[Schedule, ...]:
    """rows, blocks: elements and vectors of units of a recurrent tile. split: units are shared by threads, a launch for
    every step, where other ways to share the work leave threads idle. mr, nv: rows and vectors of the tile for the
    input's product."""
    sizes = sizes_of(problem, target)
    gates = CELL_GATES[cell_kind(_op(problem))][0]
    vectors = sizes.directions * sizes.blocks * sizes.gates
    feeding = register_tiles(max(1, sizes.steps * sizes.n), vectors, target, _FEEDING_WIDTHS) or ({"mr": 1, "nv": 1},)
    tiles = list(dict.fromkeys(tile for cells in (_CELLS if sizes.n == 1 else _CELLS[::-1])
                               if (tile := _tile(sizes, max(1, min(cells // gates, sizes.blocks)), gates, target))))
    sharers = sizes.directions * (1 if rounds_states(_op(problem)) else sizes.n)
    splits = (0, 1) if problem.threads > sharers and sizes.blocks > 1 else (0,)
    found = [{"rows": rows, "blocks": blocks, "split": split, **feeding[0]} for rows, blocks in tiles for split in splits]
    rows, blocks = tiles[0]
    return (*found, *({"rows": rows, "blocks": blocks, "split": 0, **other} for other in feeding[1:]))


def _kernels(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    return feeding_kernel(schedule), *(walk_kernel(problem, schedule, walk) for walk in walks_of(_op(problem)))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    sizes = sizes_of(problem, target)
    memory = scratch_of(problem, sizes)
    launches = [launch for walk in walks_of(_op(problem)) for launch in walk_launches(problem, sizes, memory, schedule, walk)]
    rows = sizes.steps * sizes.n
    if rows == 0:
        return Built(launches=tuple(launches), scratch=memory.nbytes)
    tables = (row_offsets(rows, schedule["mr"], 4 * sizes.features), np.zeros(2, np.int64))
    feeding = Launch(feeding_kernel(schedule), (
        source(0), memory.fed, packed(FEEDING), packed(FEEDING_BIAS), table(0), table(1), 0, 1, rows, sizes.features,
        sizes.directions * sizes.gates * sizes.units, 4 * sizes.features,
    ))  # fmt: skip
    return Built(launches=(feeding, *launches), tables=tables, scratch=memory.nbytes)


RECURRENT_STEPS_F32_CHF = Routine(
    name="recurrent.steps.f32.chf",
    op=Recurrent,
    reject=_reject,
    signatures=_signatures,
    schedules=_schedules,
    pack=pack_recurrent,
    build=_build,
    kernels=_kernels,
    packs=_PACKS,
    tolerance=64.0,  # what is rounded at a step is multiplied by the recurrent weights at the next
)

QUANTISED_STATE_LSTM_STEPS_F32_CHF = replace(
    RECURRENT_STEPS_F32_CHF,
    name="quantised_state_lstm.steps.f32.chf",
    op=QuantisedStateLstm,
    tolerance=16384.0,  # a state between two of 255 steps may be rounded to either
)
