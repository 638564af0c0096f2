"""The interface of an op: a frozen dataclass of static parameters with a shape rule and a numpy meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from softneuro.types import Array, TensorType

if TYPE_CHECKING:
    from softneuro.graph import Graph

__all__ = ["Bound", "Op", "Types", "Values"]

Types = Sequence[TensorType | None]
"""Types of an op's inputs by position; None where an optional input is absent."""
Values = Sequence[Array | None]
"""Values of an op's inputs by position; None where absent or not known before the run."""


@dataclass(frozen=True)
class Bound:
    """An op whose once-dynamic parameters are now static, and which inputs it still takes."""

    op: Op
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """Base of all ops. Subclasses are frozen dataclasses whose fields are hashable static parameters.

    Absent optional inputs are positions holding None (in the middle) or missing positions (at the end).
    """

    name: ClassVar[str] = ""

    def bind(self, types: Types, values: Values) -> Bound | None:
        """The static form once shapes and values are known; None when this already is the static form.

        Raises DynamicShape when a needed value (a shape, axes, pads) is not known before the run.
        """
        return None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        """Types of the outputs. Raises InputError with found and needed when the inputs do not fit, DynamicShape
        when the sizes depend on the data of the run."""
        raise NotImplementedError(self.name)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        """The outputs, computed in numpy: the definition that every routine is tested against."""
        raise NotImplementedError(self.name)

    def is_repeatable(self) -> bool:
        """Whether equal inputs give equal outputs: all ops but random ones."""
        return True

    def body_run_once(self) -> Graph | None:
        """The graph that this layer stands for, when it is one that always runs exactly once."""
        return None

    def body_label(self) -> str:
        """Which of an op's graphs `body_run_once` is, where there are several: their layers may have the same names."""
        return ""

    def may_grow(self) -> bool:
        """Whether outputs may be much larger than inputs, and `infer` tells how large before they are computed."""
        return True

    def made_up(self, types: Types, rng: np.random.Generator) -> Values | None:
        """Inputs to measure with, for ops to which independent random numbers mean nothing; None for all others."""
        return None

    def macs(self, types: Types) -> int:
        """Multiply-accumulates of one run; 0 for ops that only move data or are bound by memory."""
        return 0
