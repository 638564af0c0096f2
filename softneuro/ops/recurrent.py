"""Recurrent layers over a sequence: RNN, GRU and LSTM as ONNX defines them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.ops.pointwise import Pointwise
from softneuro.types import Array, TensorType

__all__ = ["GATES", "Recurrent"]

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Gates of a cell by kind. Weights hold them in ONNX's order (update, reset, hidden; input, output, forget, cell)."""

_Activate = Callable[[int, Array], Array]


@dataclass(frozen=True)
class Recurrent(Op):
    """One recurrent layer of ``hidden`` units.

    Inputs: x (steps, n, c), w (d, gates * hidden, c), r (d, gates * hidden, hidden), optional bias (d, 2 * gates *
    hidden; of w then of r), lengths (n), first hidden state (d, n, hidden), first cell state, peepholes (d, 3 *
    hidden; input, output, forget). d: 2 when direction is ``bidirectional``, else 1.
    Outputs: y (steps, d, n, hidden), 0 after an element's length; last hidden state; last cell state (LSTM).
    batch_first: n comes before steps and d everywhere.

    activations: pointwise programs, for each direction those of the gates in the order of ONNX's attribute.
    clip: bound of what goes into an activation of a gate. coupled: an LSTM that forgets 1 - input.
    linear_before_reset: a GRU that applies the reset gate after the product with r.
    """

    name: ClassVar[str] = "recurrent"
    kind: Literal["rnn", "gru", "lstm"]
    hidden: int
    activations: tuple[str, ...]
    direction: Literal["forward", "reverse", "bidirectional"] = "forward"
    clip: float | None = None
    linear_before_reset: bool = False
    coupled: bool = False
    batch_first: bool = False

    @property
    def directions(self) -> int:
        """How often the sequence is walked."""
        return 2 if self.direction == "bidirectional" else 1

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, w, r = tensor(types, 0, "sequence"), tensor(types, 1, "weights"), tensor(types, 2, "recurrent weights")
        if x.rank != 3:
            raise InputError(f"sequence is {x}, needed rank 3")
        rows = GATES[self.kind] * self.hidden
        for found, columns in ((w, x.shape[2]), (r, self.hidden)):
            if found.shape != (self.directions, rows, columns):
                raise InputError(f"weights are {found}, needed shape {(self.directions, rows, columns)}")
        n, steps = (x.shape[0], x.shape[1]) if self.batch_first else (x.shape[1], x.shape[0])
        shape: tuple[int, ...] = (n, steps, self.directions) if self.batch_first else (steps, self.directions, n)
        state = (n, self.directions) if self.batch_first else (self.directions, n)
        last = TensorType(x.dtype, (*state, self.hidden))
        return (TensorType(x.dtype, (*shape, self.hidden)), *(last,) * (2 if self.kind == "lstm" else 1))

    def macs(self, types: Types) -> int:
        y, x = self.infer(types)[0], tensor(types, 0, "sequence")
        return y.size * GATES[self.kind] * (x.shape[2] + self.hidden)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        padded: list[Array | None] = [*inputs, *[None] * (8 - len(inputs))]
        x, w, r, bias, lengths, hidden, cell, peepholes = padded
        assert x is not None and w is not None and r is not None
        if self.batch_first:
            x = np.swapaxes(x, 0, 1)
            hidden, cell = [None if v is None else np.swapaxes(v, 0, 1) for v in (hidden, cell)]
        steps, n = x.shape[:2]
        ends = np.full(n, steps) if lengths is None else np.asarray(lengths).astype(np.int64)
        walks = []
        for d in range(self.directions):
            backwards = self.direction == "reverse" or d == 1
            order = _order(steps, ends, backwards)
            state = [np.zeros((n, self.hidden), x.dtype) if v is None else v[d] for v in (hidden, cell)]
            weights = (w[d], r[d], None if bias is None else bias[d], None if peepholes is None else peepholes[d])
            y, *last = self._walk(
                np.take_along_axis(x, order[:, :, None], axis=0), ends, state, weights, self._activate(d)
            )
            walks.append((np.take_along_axis(y, order[:, :, None], axis=0), *last))
        sequence = np.stack([walk[0] for walk in walks], axis=1)
        states = [np.stack([walk[i] for walk in walks]) for i in range(1, 3 if self.kind == "lstm" else 2)]
        if self.batch_first:
            return (sequence.transpose(2, 0, 1, 3), *(np.swapaxes(s, 0, 1) for s in states))
        return (sequence, *states)

    def _activate(self, direction: int) -> _Activate:
        count = len(self.activations) // self.directions
        ops = [Pointwise(program) for program in self.activations[direction * count : (direction + 1) * count]]

        return lambda index, value: ops[index].reference([value])[0]

    def _walk(
        self,
        x: Array,
        ends: Array,
        state: list[Array],
        weights: tuple[Array, Array, Array | None, Array | None],
        activate: _Activate,
    ) -> tuple[Array, Array, Array]:
        """All steps in the order of ``x``: y, and the states of every element at its end."""
        w, r, bias, peepholes = weights
        rows = GATES[self.kind] * self.hidden
        from_input, from_state = (np.zeros(rows, x.dtype),) * 2 if bias is None else (bias[:rows], bias[rows:])
        peep = np.zeros((3, self.hidden), x.dtype) if peepholes is None else peepholes.reshape(3, self.hidden)
        hidden, cell = state
        outputs = np.zeros((*x.shape[:2], self.hidden), x.dtype)
        for step, row in enumerate(x):
            fed = row @ w.T + from_input
            if self.kind == "lstm":
                recalled = self._recalled(hidden, r, (step <= ends)[:, None])
                new, new_cell = self._lstm(fed + recalled + from_state, cell, peep, activate)
            else:
                new_cell = cell
                new = (
                    self._gru(fed, hidden, r, from_state, activate)
                    if self.kind == "gru"
                    else activate(0, self._clipped(fed + hidden @ r.T + from_state))
                )
            runs = (step < ends)[:, None]
            hidden, cell = np.where(runs, new, hidden), np.where(runs, new_cell, cell)
            outputs[step] = np.where(runs, new, 0)
        return outputs, hidden, cell

    def _recalled(self, hidden: Array, r: Array, ran: Array) -> Array:
        """What an LSTM's gates get of the hidden state; ran (n, 1): the elements that ran a step before."""
        product: Array = hidden @ r.T
        return product

    def _clipped(self, value: Array) -> Array:
        return value if self.clip is None else np.clip(value, -self.clip, self.clip)

    def _lstm(self, gates: Array, cell: Array, peep: Array, activate: _Activate) -> tuple[Array, Array]:
        enter, leave, forget, candidate = np.split(gates, 4, axis=-1)
        enter = activate(0, self._clipped(enter + peep[0] * cell))
        kept = 1 - enter if self.coupled else activate(0, self._clipped(forget + peep[2] * cell))
        new = kept * cell + enter * activate(1, self._clipped(candidate))
        return activate(0, self._clipped(leave + peep[1] * new)) * activate(2, new), new

    def _gru(self, fed: Array, hidden: Array, r: Array, from_state: Array, activate: _Activate) -> Array:
        size = self.hidden
        both = fed[:, : 2 * size] + hidden @ r[: 2 * size].T + from_state[: 2 * size]
        update, reset = np.split(activate(0, self._clipped(both)), 2, axis=-1)
        if self.linear_before_reset:
            recalled = reset * (hidden @ r[2 * size :].T + from_state[2 * size :])
        else:
            recalled = (reset * hidden) @ r[2 * size :].T + from_state[2 * size :]
        candidate = activate(1, self._clipped(fed[:, 2 * size :] + recalled))
        new: Array = (1 - update) * candidate + update * hidden
        return new


def _order(steps: int, ends: Array, backwards: bool) -> Array:
    """(steps, n): the time each element reads at each step; backwards starts at its end and is its own inverse."""
    forward = np.arange(steps)[:, None] + np.zeros_like(ends)[None, :]
    if not backwards:
        return forward
    return np.where(forward < ends[None, :], ends[None, :] - 1 - forward, forward)
