"""What the kernel of recurrent layers and its routine agree on. Loads no compiler."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ADVANCE", "ALL_PHASES", "CELL_GATES", "FINISH", "PRODUCT", "START"]

CELL_GATES: Mapping[str, tuple[int, int]] = {"rnn": (1, 0), "lstm": (4, 0), "gru": (2, 1), "gru_linear": (3, 0)}
"""By kind of cell: the gates whose sums come from the state, and those whose sums come from the reset state."""

START, PRODUCT, ADVANCE, FINISH = 1, 2, 4, 8
"""Phases of a launch: first states are read; products with the states, and the reset states; products with the reset
states, and the cells; last states are written."""

ALL_PHASES = START | PRODUCT | ADVANCE | FINISH
