"""The cells of recurrent layers on a row of vectors of hidden units: from sums of products to the next state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.elementary import constant
from softneuro.codegen.emit import I64, CountedLoop, byte_offset, load_at, micro_kernel, store_at, store_lanes
from softneuro.codegen.pointwise_emit import program_value
from softneuro.codegen.recurrence import CELL_GATES
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, first_lanes, fma_value
from softneuro.ops.pointwise import typed_program
from softneuro.types import DType

__all__ = ["cell_row", "reset_row"]

Activate = Callable[[Any], Any]


def cell_row(target: Target, kind: str, activations: str, coupled: bool, peepholes: bool) -> Any:
    """The intrinsic ``advance(sums, fed, old, new, memory, peep, y, first, last, hidden)`` of one element's cells.

    Addresses are those of block 0; blocks first..last are computed, at least one. sums, fed: float32 [block][gate][lane],
    what comes from the state and what comes from the input with the bias. old, new: [block][lane], the state before and
    after; y: the first ``hidden`` units of the new state. memory: the LSTM's cell state [block][lane], which is updated, or
    for ``gru`` the [block][2][lane] that `reset_row` left. peep: [block][3][lane].

    kind: one of `CELL_GATES`. activations: pointwise programs in the order of ONNX's attribute, joined by ``|``.
    """
    cell = _Cell(target, kind, activations, coupled, peepholes)

    def body(builder: Any, args: list[Any]) -> None:
        sums, fed, old, new, memory, peep, y, first, last, hidden = args
        loop = CountedLoop(builder, builder.sub(last, first), [])
        block = builder.add(loop.index, first)
        units = cell.at(builder, new, block, 1)
        value = cell.next_state(builder, cell.at(builder, sums, block, cell.sums), cell.at(builder, fed, block, cell.gates),
                                cell.at(builder, old, block, 1), cell.at(builder, memory, block, cell.memory),
                                cell.at(builder, peep, block, 3))
        store_at(builder, value, units)
        left = builder.sub(hidden, builder.mul(block, I64(target.f32_lanes)))
        place = cell.at(builder, y, block, 1)
        with builder.if_else(builder.icmp_signed(">=", left, I64(target.f32_lanes))) as (whole, part):
            with whole:
                store_at(builder, value, place)
            with part:
                store_lanes(builder, value, place, first_lanes(builder, left, target.f32_lanes))
        loop.end([])

    return micro_kernel("cell_row", 10, body)


def reset_row(target: Target, activations: str) -> Any:
    """The intrinsic ``reset(sums, fed, old, place, first, last)``: of `cell_row`'s ``gru``, the state times the reset gate at
    ``place`` [block][lane]. The update gate replaces its sum."""
    cell = _Cell(target, "gru", activations, False, False)

    def body(builder: Any, args: list[Any]) -> None:
        sums, fed, old, place, first, last = args
        loop = CountedLoop(builder, builder.sub(last, first), [])
        block = builder.add(loop.index, first)
        row, source = cell.at(builder, sums, block, cell.memory), cell.at(builder, fed, block, cell.gates)
        update, reset = [cell.activate(builder, 0, cell.total(builder, row, source, gate)) for gate in (0, 1)]
        store_at(builder, update, row)
        state = load_at(builder, cell.at(builder, old, block, 1), cell.vector)
        store_at(builder, builder.fmul(reset, state), cell.at(builder, place, block, 1))
        loop.end([])

    return micro_kernel("reset_row", 6, body)


class _Cell:
    """The emitters of a cell. gates, sums, memory: vectors of a block in the input's sums, the state's sums, the memory."""

    def __init__(self, target: Target, kind: str, activations: str, coupled: bool, peepholes: bool) -> None:
        first, second = CELL_GATES[kind]
        self._target, self._kind, self._coupled, self._peepholes = target, kind, coupled, peepholes
        self._programs = [typed_program(text, (DType.F32,)) for text in activations.split("|")]
        self.vector = ir.VectorType(F32, target.f32_lanes)
        self.gates, self.sums = first + second, second or first
        self.memory = first if second else 1

    def at(self, builder: Any, origin: Any, block: Any, vectors: int) -> Any:
        """The byte pointer of a block of ``vectors`` vectors."""
        return byte_offset(builder, origin, builder.mul(block, I64(4 * self._target.f32_lanes * vectors)))

    def activate(self, builder: Any, index: int, value: Any) -> Any:
        """Activation ``index`` of a vector."""
        return program_value(builder, self._target, self._programs[index], [value], self._target.f32_lanes)

    def load(self, builder: Any, pointer: Any, gate: int = 0) -> Any:
        """Vector ``gate`` of a block."""
        return load_at(builder, byte_offset(builder, pointer, gate * 4 * self._target.f32_lanes), self.vector)

    def total(self, builder: Any, sums: Any, fed: Any, gate: int) -> Any:
        """What goes into a gate."""
        return builder.fadd(self.load(builder, sums, gate), self.load(builder, fed, gate))

    def next_state(self, builder: Any, sums: Any, fed: Any, old: Any, memory: Any, peep: Any) -> Any:
        """The new state of a block."""
        if self._kind == "rnn":
            return self.activate(builder, 0, self.total(builder, sums, fed, 0))
        if self._kind == "lstm":
            return self._lstm(builder, [self.total(builder, sums, fed, gate) for gate in range(4)], memory, peep)
        if self._kind == "gru":
            update = self.load(builder, memory)
            inner = builder.fadd(self.load(builder, sums), self.load(builder, fed, 2))
        else:
            update, reset = [self.activate(builder, 0, self.total(builder, sums, fed, gate)) for gate in (0, 1)]
            inner = fma_value(builder, self._target, reset, self.load(builder, sums, 2), self.load(builder, fed, 2))
        proposal = self.activate(builder, 1, inner)
        kept = builder.fsub(constant(update, 1.0), update)
        return fma_value(builder, self._target, update, self.load(builder, old), builder.fmul(kept, proposal))

    def _lstm(self, builder: Any, totals: Sequence[Any], memory: Any, peep: Any) -> Any:
        enter, leave, forget, proposal = totals

        def peeped(total: Any, cell: Any, which: int) -> Any:
            if not self._peepholes:
                return total
            return fma_value(builder, self._target, self.load(builder, peep, which), cell, total)

        cell = self.load(builder, memory)
        enter = self.activate(builder, 0, peeped(enter, cell, 0))
        if self._coupled:
            kept = builder.fsub(constant(enter, 1.0), enter)
        else:
            kept = self.activate(builder, 0, peeped(forget, cell, 2))
        entering = builder.fmul(enter, self.activate(builder, 1, proposal))
        new = fma_value(builder, self._target, kept, cell, entering)
        store_at(builder, new, memory)
        return builder.fmul(self.activate(builder, 0, peeped(leave, new, 1)), self.activate(builder, 2, new))
