"""How far the readers of a tensor look: what lies beyond is the same to them, so no byte is spent on it.

A tensor that only ReLUs read needs no negative numbers. (What follows a ReLU or a clip begins at its bound in any case: a
range spans the numbers that were met, and 0.)
"""

from __future__ import annotations

import math

from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Pointwise, Ref, parse_program

__all__ = ["clamps"]

_Ends = tuple[float, float]
_ALL: _Ends = (-math.inf, math.inf)


def clamps(graph: Graph) -> dict[str, _Ends]:
    """Lowest and highest number that matter, 0 among them, for the tensors that all their readers clamp."""
    found: dict[str, _Ends] = {}
    for layer in graph.layers:
        for position, name in enumerate(layer.inputs):
            low, high = _looked_at(layer, position)
            known = found.get(name, (0.0, 0.0))
            found[name] = (min(known[0], low), max(known[1], high))
    return {name: ends for name, ends in found.items() if ends != _ALL and name not in graph.outputs}


def _looked_at(layer: Layer, position: int) -> _Ends:
    """What a layer makes of one of its inputs, when all it does with it is to clamp it."""
    if not isinstance(layer.op, Pointwise):
        return _ALL
    operand = Ref("x", position)
    uses = [instruction for instruction in parse_program(layer.op.program) if operand in instruction.operands]
    low, high = 0.0, 0.0
    for instruction in uses:
        numbers = [number for number in instruction.operands[1:] if isinstance(number, float)]
        if instruction.opcode == "relu":
            high = math.inf
        elif instruction.opcode == "clip" and len(numbers) == 2:
            low, high = min(low, numbers[0]), max(high, numbers[1])
        else:
            return _ALL
    return low, high
