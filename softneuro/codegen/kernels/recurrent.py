"""Steps of a recurrent layer over sequences whose input products are already there.

Words: 0 what the input feeds to the gates, 1 bytes from one time to the next there, 2 from one element of the batch to
the next, 3 states [2][direction][element][unit], 4 memories [direction][element][unit], 5 sums of the first product
[direction][element][block][gate][lane], 6 reset states, 7 sums of the second product (both for `gru` alone),
8 recurrent weights, 9 their biases, 10 weights of the second product, 11 their biases, 12 peepholes (or 0),
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

from numba.extending import register_jitable

from softneuro.codegen.bulk import copy_bytes, fill_bytes
from softneuro.codegen.cells import cell_row, reset_row
from softneuro.codegen.gate_tile import gate_tile
from softneuro.codegen.memory import load_i32, load_i64
from softneuro.codegen.recurrence import ADVANCE, CELL_GATES, FINISH, PRODUCT, START
from softneuro.codegen.target import Target

__all__ = ["make"]


def make(target: Target, kind: str, rows: int, blocks: int, activations: str, coupled: bool,
         peepholes: bool) -> Callable[[int, int, int], None]:
    """The kernel whose tiles are ``rows`` elements by ``blocks`` vectors of units; the rest as in `cell_row`."""
    lanes = target.f32_lanes
    copy, fill = copy_bytes(target), fill_bytes(target)
    walk = _walk_reset if CELL_GATES[kind][1] else _walk
    walk_steps = walk(target, kind, rows, blocks, activations, coupled, peepholes)

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


def _walk(target: Target, kind: str, rows: int, blocks: int, activations: str, coupled: bool, peepholes: bool) -> Any:
    """``walk(args, direction, row, last_row, block, last_block)``: all steps of a launch, of cells with one product."""
    lanes, gates = target.f32_lanes, CELL_GATES[kind][0]
    width = gates * lanes * 4
    product = _product(target, rows, gates, blocks)
    advance_row = _advance_row(target, kind, activations, coupled, peepholes)

    @register_jitable
    def walk(args: int, direction: int, row: int, last_row: int, block: int, last_block: int) -> None:
        n, hidden = load_i64(args, 26), load_i64(args, 27)
        total = (hidden + lanes - 1) // lanes
        line, stride = direction * n, total * lanes * 4
        half = load_i64(args, 28) * n * stride
        longest, first_step = _longest(args, row, last_row), load_i64(args, 30)
        for step in range(first_step, first_step + load_i64(args, 31)):
            old = load_i64(args, 3) + (step & 1) * half + line * stride
            new = load_i64(args, 3) + (step + 1 & 1) * half + line * stride
            sums, memory = load_i64(args, 5) + line * total * width, load_i64(args, 4) + line * stride
            if step < longest:
                product(hidden, old, stride, load_i64(args, 8), load_i64(args, 9), direction, total, sums, row, last_row,
                        block, last_block)
            for i in range(row, last_row):
                advance_row(args, sums + i * total * width, old + i * stride, new + i * stride, memory + i * stride, direction,
                            i, step, block, last_block)

    return walk


def _walk_reset(target: Target, kind: str, rows: int, blocks: int, activations: str, coupled: bool, peepholes: bool) -> Any:
    """As `_walk`, of cells that multiply the reset state too: in a launch of its own when units are shared."""
    lanes, (gates, more_gates) = target.f32_lanes, CELL_GATES[kind]
    width, more_width = gates * lanes * 4, more_gates * lanes * 4
    product, more_product = _product(target, rows, gates, blocks), _product(target, rows, more_gates, blocks)
    reset, advance_row = reset_row(target, activations), _advance_row(target, kind, activations, coupled, peepholes)

    @register_jitable
    def walk(args: int, direction: int, row: int, last_row: int, block: int, last_block: int) -> None:
        n, hidden, phases = load_i64(args, 26), load_i64(args, 27), load_i64(args, 32)
        total = (hidden + lanes - 1) // lanes
        line, stride = direction * n, total * lanes * 4
        half = load_i64(args, 28) * n * stride
        longest, first_step = _longest(args, row, last_row), load_i64(args, 30)
        for step in range(first_step, first_step + load_i64(args, 31)):
            old = load_i64(args, 3) + (step & 1) * half + line * stride
            new = load_i64(args, 3) + (step + 1 & 1) * half + line * stride
            sums, place = load_i64(args, 5) + line * total * width, load_i64(args, 6) + line * stride
            more_sums = load_i64(args, 7) + line * total * more_width
            if phases & PRODUCT != 0 and step < longest:
                product(hidden, old, stride, load_i64(args, 8), load_i64(args, 9), direction, total, sums, row, last_row,
                        block, last_block)
                for i in range(row, last_row):
                    end = _end_of(args, i)
                    if step < end:
                        time = _time_of(args, direction, step, end)
                        fed = load_i64(args, 0) + time * load_i64(args, 1) + i * load_i64(args, 2)
                        reset(sums + i * total * width, fed + direction * total * (width + more_width), old + i * stride,
                              place + i * stride, block, last_block)
            if phases & ADVANCE != 0:
                if step < longest:
                    more_product(hidden, place, stride, load_i64(args, 10), load_i64(args, 11), direction, total, more_sums,
                                 row, last_row, block, last_block)
                for i in range(row, last_row):
                    advance_row(args, more_sums + i * total * more_width, old + i * stride, new + i * stride,
                                sums + i * total * width, direction, i, step, block, last_block)

    return walk


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


def _product(target: Target, rows: int, gates: int, blocks: int) -> Any:
    """The jitted product of states and recurrent weights, for elements row..last_row and blocks block..last_block.

    Fewer elements than a tile has are done one by one; else the last tile overlaps the one before it.
    """
    tile, single = gate_tile(target, rows, gates, blocks), gate_tile(target, 1, gates, blocks)
    width = gates * 4 * target.f32_lanes

    @register_jitable
    def product(hidden: int, states: int, state_row: int, weights: int, bias: int, direction: int, total: int, sums: int,
                row: int, last_row: int, block: int, last_block: int) -> None:
        panel = hidden * width
        for first in range(block, last_block, blocks):
            w = weights + (direction * total + first) * panel
            start = bias + (direction * total + first) * width
            count = last_block - first
            place = sums + first * width
            i = row
            if last_row - row >= rows:
                while i < last_row:
                    i = min(i, last_row - rows)
                    tile(hidden, states + i * state_row, state_row, w, count, panel, start, place + i * total * width,
                         total * width)
                    i += rows
            while i < last_row:
                single(hidden, states + i * state_row, state_row, w, count, panel, start, place + i * total * width,
                       total * width)
                i += 1

    return product
