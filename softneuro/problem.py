"""A problem: one layer with concrete types, as a value with a text form.

The text is the profile's key, the test's id, the command line's argument and the plan step's label:

    conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)) f32[1,64,56,56] *f32[64,64,3,3] -> f32[1,64,56,56] @1

A star marks an input whose value is known before the run (weights), ``-`` an absent optional input, ``@1`` the
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from softneuro.ops.base import Op
from softneuro.ops.text import format_op, parse_op
from softneuro.quantisation import Quantisation
from softneuro.types import TensorType

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """An op, the types around it, which inputs are constant, and how many threads share the work.

    quantisations: how each input, then each output, is kept in 8 bits, None for those that are not; empty where none is.
    They are values, as weights are: no part of the text or of what makes two problems equal, for `Routine.pack` alone.
    """

    op: Op
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constant: tuple[bool, ...]
    threads: int = 1
    quantisations: tuple[Quantisation | None, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, op: Op, inputs: tuple[TensorType | None, ...], constant: tuple[bool, ...], threads: int = 1) -> Problem:
        """The problem with its outputs inferred."""
        return cls(op, inputs, op.infer(inputs), constant, threads)

    def key(self) -> str:
        """The problem's text form."""
        operands = ("-" if t is None else f"*{t}" if c else str(t) for t, c in zip(self.inputs, self.constant, strict=True))
        outputs = " ".join(map(str, self.outputs))
        return f"{format_op(self.op)} {' '.join(operands)} -> {outputs} @{self.threads}"

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Inverse of `key`. Raises ValueError for anything else."""
        head, arrow, tail = text.rpartition(" -> ")
        results, at, threads = tail.rpartition(" @")
        closing = head.rfind(")")
        if not arrow or not at or closing < 0 or not threads.isdigit():
            raise ValueError(f"problem {text!r}: needed op(...) input types -> output types @threads")
        operands = head[closing + 1 :].split()
        inputs = tuple(None if o == "-" else TensorType.parse(o.lstrip("*")) for o in operands)
        return cls(
            parse_op(head[: closing + 1]),
            inputs,
            tuple(TensorType.parse(r) for r in results.split()),
            tuple(o.startswith("*") for o in operands),
            int(threads),
        )

    def input(self, index: int) -> TensorType:
        """The type of an input that must be there."""
        type_ = self.inputs[index]
        assert type_ is not None
        return type_

    def quantised(self, quantisations: Sequence[Quantisation | None]) -> Problem:
        """The problem with a quantisation (or None) for each input, then for each output."""
        return replace(self, quantisations=tuple(quantisations) if any(quantisations) else ())

    def input_quantisation(self, index: int) -> Quantisation | None:
        """How an input is kept in 8 bits, None where it is not."""
        return self.quantisations[index] if self.quantisations else None

    def output_quantisation(self, index: int = 0) -> Quantisation | None:
        """How an output is kept in 8 bits, None where it is not."""
        return self.quantisations[len(self.inputs) + index] if self.quantisations else None

    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return self.op.macs(self.inputs)

    def nbytes(self) -> int:
        """Bytes of all inputs and outputs: the least memory traffic of one run."""
        return sum(t.nbytes for t in (*self.inputs, *self.outputs) if t is not None)
