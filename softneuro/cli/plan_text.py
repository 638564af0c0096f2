"""What several commands say about a plan: what the search gained."""

from __future__ import annotations

from softneuro.cli.console import milliseconds
from softneuro.plan.plan import Provenance

__all__ = ["gain"]


def gain(made: Provenance) -> str:
    """What the search found, and what it gained over the default plan; empty when nothing was measured."""
    if made.measured_ns is None:
        return ""
    measured = f"measured {milliseconds(made.measured_ns)}"
    if made.kept == "mixed":
        proof = "mixed data types"
    elif made.lower_bound_ns is None:
        proof = "of what there was time to measure"
    else:
        proof = "proved optimal" if made.optimal else f"bound {milliseconds(made.lower_bound_ns)}"
    if made.kept == "default":
        return f"{measured}, the default plan: none was faster (selection {proof})"
    default = "could not be run" if made.default_ns is None else (
        f"{milliseconds(made.default_ns)} ({made.default_ns / made.measured_ns:.2f}x)")
    predicted = "selected" if made.predicted_ns is None else f"predicted {milliseconds(made.predicted_ns)}"
    in_float = "" if made.float_ns is None else (
        f", float32 plan {milliseconds(made.float_ns)} ({made.float_ns / made.measured_ns:.2f}x)")
    return f"{measured}, {predicted} ({proof}){in_float}, default plan {default}"
