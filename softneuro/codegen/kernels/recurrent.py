"""Steps of a recurrent layer over sequences whose input products are already there.

Words: 0 what the input feeds to the gates, 1 bytes from one time to the next there, 2 from one element of the batch to
the next, 3 states [2][direction][element][unit], 4 memories [direction][element][unit], 5 sums of the first product
[direction][element][block][gate][lane], 6 reset or rounded states, 7 sums of the second product (for `gru` alone), 8
recurrent weights, 9 their biases, 10 weights of the second product, 11 their biases, 12 peepholes (or 0),
13 first hidden state (or 0), 14 first memory (or 0), 15 bytes from a direction to the next in these and in the last
states, 16 from an element to the next, 17 y, 18 bytes from one time to the next there, 19 from one direction,
20 from one element, 21 last hidden state (or 0), 22 last memory (or 0), 23 lengths (or 0), 24 bytes of a length,
25 times, 26 elements, 27 units, 28 directions, 29 bits of the directions that walk backwards, 30 first step, 31 number
of steps, 32 phases (`softneuro.codegen.recurrence`), 33 shares of elements, 34 shares of units.

A share of elements, of units and a direction is one unit of work. More than one share of units needs a launch for each
step and phase: all units' states of the step before go into a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from softneuro.codegen.bulk import copy_bytes, fill_bytes
from softneuro.codegen.cells import cell_row, reset_row
from softneuro.codegen.gate_tile import gate_tile
from softneuro.codegen.memory import load_i32, load_i64, store_f32
from softneuro.codegen.recurrence import ADVANCE, CELL_GATES, FINISH, PRODUCT, START
from softneuro.codegen.target import Target
from softneuro.codegen.vector import vectors
from softneuro.codegen.whole_gate_tile import store_whole, whole_gate_tile

__all__ = ["make"]


def make(target: Target, kind: str, rows: int, blocks: int, activations: str, coupled: bool, peepholes: bool,
         stored: str) -> Callable[[int, int, int], None]:
    """The kernel whose tiles are ``rows`` elements by ``blocks`` vectors of units; the rest as in `cell_row`.

    ``stored``: f32; or, for cells with one product, i8 or i16: weights are these whole numbers times what the words call
    biases, and the product takes states rounded to 8 bits.
    """
    lanes = target.f32_lanes
    copy, fill = copy_bytes(target), fill_bytes(target)
    walk_steps = _walk(target, kind, rows, blocks, activations, coupled, peepholes, stored)

    @register_jitable
    def move_states(args: int, direction: int, row: int, last_row: int, unit: int, last_unit: int, final: bool) -> None:
        """States and memories of elements and units: from the first ones or zeros, or to the last ones if ``final``."""
        stride = (load_i64(args, 27) + lanes - 1) // lanes * lanes * 4
        line = direction * load_i64(args, 26) * stride
        half = load_i64(args, 28) * load_i64(args, 26) * stride
        for which in range(2):
            place = load_i64(args, 3 + which) + line + unit * 4
            if final and which == 0:
                place += (load_i64(args, 25) & 1) * half
            other = load_i64(args, (21 if final else 13) + which)
            outside = other + direction * load_i64(args, 15) + unit * 4
            for i in range(row, last_row):
                if final and other != 0:
                    copy(outside + i * load_i64(args, 16), place + i * stride, (last_unit - unit) * 4)
                elif not final and other != 0:
                    copy(place + i * stride, outside + i * load_i64(args, 16), (last_unit - unit) * 4)
                elif not final:
                    fill(place + i * stride, (last_unit - unit) * 4, 0)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        n, hidden, phases = load_i64(args, 26), load_i64(args, 27), load_i64(args, 32)
        row_shares, unit_shares = load_i64(args, 33), load_i64(args, 34)
        total = (hidden + lanes - 1) // lanes
        groups = (total + blocks - 1) // blocks
        count = load_i64(args, 28) * row_shares * unit_shares
        for work in range(count * tid // nthreads, count * (tid + 1) // nthreads):
            direction = work // (row_shares * unit_shares)
            rest = work - direction * row_shares * unit_shares
            share = rest // unit_shares
            row, last_row = n * share // row_shares, n * (share + 1) // row_shares
            share = rest - share * unit_shares
            block = groups * share // unit_shares * blocks
            last_block = min(total, groups * (share + 1) // unit_shares * blocks)
            if block >= last_block:
                continue
            last_unit = min(hidden, last_block * lanes)
            if phases & START != 0:
                move_states(args, direction, row, last_row, block * lanes, last_unit, False)
            walk_steps(args, direction, row, last_row, block, last_block)
            if phases & FINISH != 0:
                move_states(args, direction, row, last_row, block * lanes, last_unit, True)

    return kernel


@register_jitable
def _end_of(args: int, row: int) -> int:
    """Steps of an element."""
    end: int = load_i64(args, 25)
    lengths = load_i64(args, 23)
    if lengths != 0:
        length = load_i32(lengths, row) if load_i64(args, 24) == 4 else load_i64(lengths, row)
        end = max(0, min(end, length))
    return end


@register_jitable
def _longest(args: int, row: int, last_row: int) -> int:
    """Steps of the longest of some elements."""
    longest = 0
    for i in range(row, last_row):
        longest = max(longest, _end_of(args, i))
    return longest


@register_jitable
def _time_of(args: int, direction: int, step: int, end: int) -> int:
    """The time that an element reads and writes at a step."""
    return end - 1 - step if load_i64(args, 29) >> direction & 1 != 0 and step < end else step


def _walk(target: Target, kind: str, rows: int, blocks: int, activations: str, coupled: bool, peepholes: bool,
          stored: str) -> Any:
    """``walk(args, direction, row, last_row, block, last_block)``: all steps of a launch.

    The last product of a step reads the states, or what was made of them before: in a launch of its own when units are shared.
    """
    lanes, (gates, more_gates) = target.f32_lanes, CELL_GATES[kind]
    if more_gates:
        prepare = _reset_states(target, rows, gates, more_gates, blocks, activations)
    else:
        prepare = _keep_states if stored == "f32" else _round_states(target)
    prepared = prepare is not _keep_states
    product = _product(target, rows, more_gates or gates, blocks, stored)
    advance_row = _advance_row(target, kind, activations, coupled, peepholes)
    sums_word, weights_word, bias_word = (7, 10, 11) if more_gates else (5, 8, 9)
    memory_word, memory_vectors = (5, gates) if more_gates else (4, 1)
    sums_vectors = more_gates or gates

    @register_jitable
    def walk(args: int, direction: int, row: int, last_row: int, block: int, last_block: int) -> None:
        n, hidden, phases = load_i64(args, 26), load_i64(args, 27), load_i64(args, 32)
        total = (hidden + lanes - 1) // lanes
        stride = total * lanes * 4
        line, half = direction * n * stride, load_i64(args, 28) * n * stride
        place, sums = load_i64(args, 6) + line, load_i64(args, sums_word) + line * sums_vectors
        memory = load_i64(args, memory_word) + line * memory_vectors
        longest, first_step = _longest(args, row, last_row), load_i64(args, 30)
        for step in range(first_step, first_step + load_i64(args, 31)):
            old = load_i64(args, 3) + (step & 1) * half + line
            new = load_i64(args, 3) + (step + 1 & 1) * half + line
            if phases & PRODUCT != 0 and step < longest:
                prepare(args, direction, step, old, place, row, last_row, block, last_block)
            if phases & ADVANCE != 0:
                if step < longest:
                    product(hidden, place if prepared else old, stride, load_i64(args, weights_word),
                            load_i64(args, bias_word), direction, total, sums, row, last_row, block, last_block)
                for i in range(row, last_row):
                    advance_row(args, sums + i * stride * sums_vectors, old + i * stride, new + i * stride,
                                memory + i * stride * memory_vectors, direction, i, step, block, last_block)

    return walk


@register_jitable
def _keep_states(args: int, direction: int, step: int, old: int, place: int, row: int, last_row: int, block: int,
                 last_block: int) -> None:
    """Nothing is made of the states before the product."""


def _reset_states(target: Target, rows: int, gates: int, more_gates: int, blocks: int, activations: str) -> Any:
    """``reset_states(args, direction, step, old, place, row, last_row, block, last_block)``: the states times the reset gate."""
    lanes = target.f32_lanes
    width, fed_width = gates * lanes * 4, (gates + more_gates) * lanes * 4
    product, reset = _product(target, rows, gates, blocks, "f32"), reset_row(target, activations)

    @register_jitable
    def reset_states(args: int, direction: int, step: int, old: int, place: int, row: int, last_row: int, block: int,
                     last_block: int) -> None:
        n, hidden = load_i64(args, 26), load_i64(args, 27)
        total = (hidden + lanes - 1) // lanes
        stride, sums = total * lanes * 4, load_i64(args, 5) + direction * n * total * width
        product(hidden, old, stride, load_i64(args, 8), load_i64(args, 9), direction, total, sums, row, last_row, block,
                last_block)
        for i in range(row, last_row):
            end = _end_of(args, i)
            if step < end:
                time = _time_of(args, direction, step, end)
                fed = load_i64(args, 0) + time * load_i64(args, 1) + i * load_i64(args, 2)
                reset(sums + i * total * width, fed + direction * total * fed_width, old + i * stride, place + i * stride,
                      block, last_block)

    return reset_states


def _round_states(target: Target) -> Any:
    """As `_reset_states`: the states as steps from 0, as `whole_gate_tile` reads them. A step is a 255th of the range, 0
    included, of all elements that ran a step before.

    The arithmetic is that of `softneuro.ops.integer`, operation by operation. A NaN makes NaN of all.
    """
    lanes, f32 = target.f32_lanes, vectors(target)
    load_n, splat, fma, add, sub, div = f32.load_n, f32.splat, f32.fma, f32.add, f32.sub, f32.div
    maximum, minimum, negate, nearest = f32.maximum, f32.minimum, f32.negate, f32.round_even
    smallest, largest, total_of = f32.smallest, f32.largest, f32.sum
    store = store_whole(target)
    none, one, most = np.float32(0.0), np.float32(1.0), np.float32(255.0)

    @register_jitable
    def round_states(args: int, direction: int, step: int, old: int, place: int, row: int, last_row: int, block: int,
                     last_block: int) -> None:
        hidden = load_i64(args, 27)
        stride = (hidden + lanes - 1) // lanes * lanes * 4
        zeros = splat(none)
        low, high, strange = zeros, zeros, zeros
        for i in range(load_i64(args, 26)):
            if step <= _end_of(args, i):
                for unit in range(0, hidden, lanes):
                    state = load_n(old + i * stride + unit * 4, min(lanes, hidden - unit))
                    low, high, strange = minimum(state, low), maximum(state, high), fma(state, zeros, strange)
        bottom, spread = smallest(low), largest(high) - smallest(low)
        scale = spread / most + total_of(strange)
        if scale == none:
            scale = one
        scales, tops = splat(scale), splat(most)
        zero = nearest(minimum(tops, maximum(zeros, div(negate(splat(bottom)), scales))))
        for i in range(row, last_row):
            for unit in range(block * lanes, last_block * lanes, lanes):
                state = load_n(old + i * stride + unit * 4, min(lanes, hidden - unit))
                steps = minimum(tops, maximum(zeros, add(nearest(div(state, scales)), zero)))
                store(place + i * stride + unit * 2, sub(steps, zero))
            if block == 0:
                store_f32(place + i * stride + stride // 2, 0, scale)

    return round_states


def _advance_row(target: Target, kind: str, activations: str, coupled: bool, peepholes: bool) -> Any:
    """``advance_row(args, sums, old, new, memory, direction, row, step, block, last_block)``: one element's step.

    After an element's end its state stays and its y is 0.
    """
    advance = cell_row(target, kind, activations, coupled, peepholes)
    copy, fill, lanes = copy_bytes(target), fill_bytes(target), target.f32_lanes
    fed_block = sum(CELL_GATES[kind]) * lanes * 4

    @register_jitable
    def advance_row(args: int, sums: int, old: int, new: int, memory: int, direction: int, row: int, step: int, block: int,
                    last_block: int) -> None:
        hidden, end = load_i64(args, 27), _end_of(args, row)
        total, time = (hidden + lanes - 1) // lanes, _time_of(args, direction, step, end)
        y = load_i64(args, 17) + time * load_i64(args, 18) + direction * load_i64(args, 19) + row * load_i64(args, 20)
        if step < end:
            fed = load_i64(args, 0) + time * load_i64(args, 1) + row * load_i64(args, 2) + direction * total * fed_block
            peep = load_i64(args, 12) + direction * total * 3 * lanes * 4
            advance(sums, fed, old, new, memory, peep, y, block, last_block, hidden)
        else:
            start = block * lanes * 4
            length = min(hidden * 4, last_block * lanes * 4) - start
            copy(new + start, old + start, length)
            fill(y + start, length, 0)

    return advance_row


def _product(target: Target, rows: int, gates: int, blocks: int, stored: str) -> Any:
    """The jitted product of states and recurrent weights, for elements row..last_row and blocks block..last_block.

    Fewer elements than a tile has are done one by one; else the last tile overlaps the one before it.
    """
    width = gates * 4 * target.f32_lanes
    if stored == "f32":
        at_once, weight_bytes = 1, 4
        tile, single = (gate_tile(target, count, gates, blocks) for count in (rows, 1))
    else:
        at_once, weight_bytes = 2, {"i8": 1, "i16": 2}[stored]
        tile, single = (whole_gate_tile(target, count, gates, blocks, weight_bytes) for count in (rows, 1))
    weights_width = gates * target.f32_lanes * at_once * weight_bytes

    @register_jitable
    def product(hidden: int, states: int, state_row: int, weights: int, bias: int, direction: int, total: int, sums: int,
                row: int, last_row: int, block: int, last_block: int) -> None:
        depth = (hidden + at_once - 1) // at_once
        panel = depth * weights_width
        for first in range(block, last_block, blocks):
            w = weights + (direction * total + first) * panel
            start = bias + (direction * total + first) * width
            count = last_block - first
            place = sums + first * width
            i = row
            if last_row - row >= rows:
                while i < last_row:
                    i = min(i, last_row - rows)
                    tile(depth, states + i * state_row, state_row, w, count, panel, start, place + i * total * width,
                         total * width)
                    i += rows
            while i < last_row:
                single(depth, states + i * state_row, state_row, w, count, panel, start, place + i * total * width,
                       total * width)
                i += 1

    return product
