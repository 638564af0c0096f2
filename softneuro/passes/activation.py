"""An activation moves into the epilogue of the layer before it.

    Conv ── relu     →     Conv(epilogue='relu')
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.epilogue import ACTIVATIONS
from softneuro.ops.pointwise import Pointwise, Ref, parse_program
from softneuro.passes.linear import linear_op, with_epilogue
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["activation_into_epilogue"]


def activation_into_epilogue(graph: Graph) -> Graph:
    """Needs a program of one instruction; a residual that is there already is added before the activation."""
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    program = parse_program(layer.op.program) if isinstance(layer.op, Pointwise) else ()
    if len(program) != 1 or program[0].opcode not in ACTIVATIONS or program[0].values != (Ref("x", 0),):
        return False
    source = layer.inputs[0]
    op = linear_op(draft, source)
    if op is None:
        return False
    maker = draft.fusible(source)
    if maker is None:
        return f"{source!r} is read elsewhere too"
    if not draft.is_float(source):
        return f"{source!r} is not known to be a float"
    if op.epilogue.activation or op.epilogue.residual == "after":
        return f"{maker.name!r} has the epilogue {op.epilogue} already"
    epilogue = replace(op.epilogue, activation=program[0].opcode, parameters=program[0].parameters)
    draft.replace(layer, with_epilogue(maker, op, epilogue, layer.outputs))
    return True
