"""ReverseSequence: the beginnings of sequences turned round, each up to a length of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["ReverseSequence"]


@dataclass(frozen=True)
class ReverseSequence(Op):
    """Inputs: x (batch, time, ...), or (time, batch, ...) with ``time_first``; lengths (int64, batch).

    Of sequence i the first ``lengths[i]`` steps come in reverse order; the later ones stay.
    """

    name: ClassVar[str] = "reverse_sequence"
    time_first: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, lengths = tensor(types, 0, "tensor"), tensor(types, 1, "lengths")
        if x.rank < 2:
            raise InputError(f"found {x}, needed an axis of sequences and one of steps")
        batch = x.shape[int(self.time_first)]
        if lengths != TensorType(DType.I64, (batch,)):
            raise InputError(f"found the lengths {lengths}, needed i64[{batch}]")
        return (x,)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        x, lengths = inputs[0], inputs[1]
        assert x is not None and lengths is not None
        sequences = x.swapaxes(0, 1) if self.time_first else x
        steps = sequences.shape[1]
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
            wrong = lengths[(lengths < 0) | (lengths > steps)][0]
            raise InputError(f"found the length {wrong} of a sequence, needed one from 0 to {steps}")
        step, length = np.arange(steps)[None, :], lengths[:, None]
        order = np.where(step < length, length - 1 - step, step)
        turned = sequences[np.arange(len(lengths))[:, None], order]
        return (np.ascontiguousarray(turned.swapaxes(0, 1) if self.time_first else turned),)
