"""Where tuning stands, for whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Report"]


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` units of a stage, and what is at hand.

    stage: ``import``, ``calibrate`` (samples), ``compile`` (kernels), ``measure`` (candidates, those that were known before
    included), ``select``, ``sensitivity`` (layers in other data types), ``frontier`` (selections) or ``check`` (percent), in
    this order; some only where other data types than float32 are allowed.
    """

    stage: str
    done: int
    total: int
    detail: str = ""


Report = Callable[[Progress], None]
