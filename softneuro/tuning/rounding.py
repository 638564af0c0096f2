"""Layers whose results are rounded to whole numbers: there an error of 1e-6 can become one of a whole step."""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.graph import Graph
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.plan.plan import Choice
from softneuro.tuning.whole_plan import Times, precise_times

__all__ = ["rounded_layers", "without_rounded_approximations"]


def rounded_layers(graph: Graph) -> frozenset[str]:
    """The layers with an output that a pointwise layer rounds, as QLinearConv and QuantizeLinear become."""
    producers = graph.producers()
    read = (name for layer in graph.layers if _rounds(layer.op) for name in layer.inputs if name in producers)
    return frozenset(producers[name].name for name in read)


def _rounds(op: object) -> bool:
    return isinstance(op, Pointwise) and any(step.opcode == "round" for step in parse_program(op.program))


def without_rounded_approximations(times: Times, graph: Graph) -> dict[str, Sequence[tuple[Choice, float]]]:
    """The measured choices, but for approximate routines of layers whose results are rounded, where there are others."""
    rounded, precise = rounded_layers(graph), precise_times(times, graph)
    return {name: precise[name] if name in rounded else measured for name, measured in times.items()}
